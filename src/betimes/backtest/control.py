"""The control: whether the recorded policy, rehearsed, decides what the ledger says it decided.

Segments are matched by stream and version; verdicts by their answer, reasons and instant, and whole segments to the
byte.
"""

from __future__ import annotations

import msgspec

from betimes.core.canonical import encode
from betimes.core.segments import Segment
from betimes.core.streams import StreamId, segment_handle
from betimes.core.verdicts import TRACE_BYTES_MAX, Verdict, within_bound
from betimes.engine.codecs import Kinds
from betimes.engine.rehearsal import RehearsedStep

DIFFERENCES_MAX = 20
_verdicts = msgspec.json.Decoder(Verdict)


class Difference(msgspec.Struct, frozen=True):
    """A recorded segment that the control decided otherwise."""

    segment: str
    tenant: str
    recorded: str
    rehearsed: str


class Control(msgspec.Struct):
    """Counts of what the recorded policy reproduces of the ledger."""

    verdicts: int = 0
    same: int = 0
    """Verdicts with the same answer, reasons and instant."""
    segments: int = 0
    identical: int = 0
    """Segments whose verdict with its trace, and whose events, are the same to the byte (rules by their names)."""
    differences: list[Difference] = []


class ControlCheck:
    """Holds what was rehearsed against what was recorded, whichever comes first."""

    def __init__(self, kinds: Kinds) -> None:
        self.control = Control()
        self._kinds = kinds
        self._rehearsed: dict[tuple[StreamId, int], tuple[str | None, str]] = {}
        self._recorded: dict[tuple[StreamId, int], tuple[str | None, str]] = {}

    def note_recorded(self, segment: Segment) -> None:
        """Compare a segment of the ledger, or keep it until it is rehearsed."""
        name, said = (segment.stream, segment.version), (segment.verdict, segment.events)
        rehearsed = self._rehearsed.pop(name, None)
        if rehearsed is None:
            self._recorded[name] = said
        else:
            self._hold(name, said, rehearsed)

    def note_rehearsed(self, step: RehearsedStep) -> None:
        """Compare a step of the control, and what it wrote to other streams, or keep it until it is read."""
        self._note_segment((step.stream, step.recorded.version), (_text(step.recorded.verdict), encode(step.events)))
        for stream, version, events in step.also:
            self._note_segment((stream, version), (None, encode(events)))

    def _note_segment(self, name: tuple[StreamId, int], said: tuple[str | None, str]) -> None:
        recorded = self._recorded.pop(name, None)
        if recorded is None:
            self._rehearsed[name] = said
        else:
            self._hold(name, recorded, said)

    def finish(self) -> None:
        """Count segments that were never rehearsed as differences; steps that are not recorded yet are none."""
        for name, said in self._recorded.items():
            self._hold(name, said, (None, ""))
        self._recorded.clear()

    def _hold(
        self, name: tuple[StreamId, int], recorded: tuple[str | None, str], rehearsed: tuple[str | None, str]
    ) -> None:
        control = self.control
        control.segments += 1
        # Spelt anew only where the texts differ: that decodes the verdict.
        control.identical += recorded == rehearsed or (self._with_rule_names(recorded[0]), recorded[1]) == rehearsed
        verdict = recorded[0]
        if verdict is None and rehearsed[0] is None:
            return
        control.verdicts += 1
        if verdict == rehearsed[0] or _essence(verdict) == _essence(rehearsed[0]):
            control.same += 1
        elif len(control.differences) < DIFFERENCES_MAX:
            stream, version = name
            control.differences.append(
                Difference(segment_handle(stream, version), stream.tenant, verdict or "", rehearsed[0] or "")
            )

    def _with_rule_names(self, text: str | None) -> str | None:
        """Return a recorded verdict as it is written now: old traces number their rules."""
        if text is None:
            return None
        verdict = _verdicts.decode(text)
        table = self._kinds.tables.get(verdict.table)
        return encode(table.with_rule_names(verdict)) if table else text


def _text(verdict: Verdict | None) -> str | None:
    """Return a verdict as it is written to the ledger."""
    if verdict is None:
        return None
    text = encode(verdict)
    return text if len(text) <= TRACE_BYTES_MAX else encode(within_bound(verdict))


def _essence(text: str | None) -> object:
    if text is None:
        return None
    verdict = _verdicts.decode(text)
    return (verdict.answer, verdict.reasons, verdict.until)
