"""The view of a dry run: segments, effects and alarms it would have left, as far as the caller may see them."""

from __future__ import annotations

from datetime import datetime

from betimes.core.datetimes import moment
from betimes.core.segments import Segment
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.service import Caller
from betimes.engine.dry_run import DryRunEngine, effect_row
from betimes.ledger.effects import Effects, EffectView
from betimes.ledger.reader import domain_of
from betimes.ledger.rule_views import ExplainedRuleView, explain_rules
from betimes.ledger.service import Ledger, SegmentView

LISTED_MAX = 200
"""Segments, and effects, that one dry run shows, the last ones: a batch may lead to more, and so may alarms that ring
on the way to a later instant."""
EXPLAINED_MAX = 20
"""Segments that are shown with their rules, the last ones."""


class TriedSegment(SegmentView, frozen=True, kw_only=True):
    """A segment that would be written, and why."""

    rules: list[ExplainedRuleView]
    """Every rule of the table, in order, with its sentence; of the last 20 segments."""


class DryRunView(JsonView, frozen=True, kw_only=True):
    at: datetime
    """The instant it was decided at."""
    policy: str
    """The fingerprint of the policy it was decided by."""
    segments: list[TriedSegment]
    """The segments it would write: the commands with their events, one for each stream."""
    effects: list[EffectView]
    """The effects it would ask for: calls, deliveries, and commands to other streams, which are not decided here."""
    alarm_at: datetime | None
    """When the first of these streams would be woken."""
    truncated: bool
    """Whether there is more than shown."""


async def view_dry_run(engine: DryRunEngine, caller: Caller, areas: frozenset[str]) -> DryRunView:
    """Return what the commands of a dry run led to, in the domains the caller may read."""
    ledger, effects = Ledger(engine, caller, areas), Effects(engine, caller, areas)
    segments = [segment for segment in engine.trial.segments if domain_of(segment.stream.kind) in areas]
    written = [write for write in engine.trial.effects_written if domain_of(write.id.kind) in areas]
    return DryRunView(
        at=moment(await engine.store.now()),
        policy=(await engine.policy_of(caller.tenant)).fingerprint,
        segments=_segment_views(ledger, segments[-LISTED_MAX:]),
        effects=[await effects.view(effect_row(write)) for write in written[-LISTED_MAX:]],
        alarm_at=moment(engine.first_alarm_at()),
        truncated=max(len(segments), len(written)) > LISTED_MAX,
    )


def _segment_views(ledger: Ledger, segments: list[Segment]) -> list[TriedSegment]:
    kinds, bare = ledger.engine.kinds, max(0, len(segments) - EXPLAINED_MAX)
    return [
        derive(
            TriedSegment,
            ledger.view(segment),
            rules=explain_rules(kinds, kinds.of(segment.stream).recorded(segment).verdict) if place >= bare else [],
        )
        for place, segment in enumerate(segments)
    ]
