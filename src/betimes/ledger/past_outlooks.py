"""The outlook of a stream over a stretch of the past: as its history was then, not as its state is now.

The history is folded from its beginning, and what each state showed is shown for as long as it held, under the policy
that its segment names. A history that is longer than may be read is shown by the state of now, and the answer says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from betimes.core.instants import Instant
from betimes.core.outlooks import Band, Outlook, WindowFill
from betimes.core.policies import Policy
from betimes.domain.service import in_slices
from betimes.engine.codecs import checkpoint_of
from betimes.engine.engine import Engine
from betimes.engine.redecision import NotReproducible, recorded_policy
from betimes.engine.replay import fold_segment
from betimes.engine.store import PAGE_MAX, StreamRow

SEGMENTS_MAX = 1_000
"""Folded for one answer, of all its streams together."""
STATES_MAX = 200
"""Of one stream, between the two instants."""
OutlookHook: TypeAlias = Callable[[Any, Policy, Instant, Instant, Instant], Outlook]


class _Span(NamedTuple):
    """A state, for as long as it held, and the policy it was reached under."""

    state: Any
    policy: str
    since_at: Instant
    until_at: Instant


class PastOutlooks:
    """Outlooks of streams between two instants, within a bound for all of them together."""

    def __init__(self, engine: Engine, policy: Policy, now: Instant, since_at: Instant, until_at: Instant) -> None:
        self._engine, self._policy = engine, policy
        self._now, self._since_at, self._until_at = now, since_at, until_at
        self._left = SEGMENTS_MAX
        self._policies: dict[str, Policy] = {policy.fingerprint: policy}
        self.is_exact = True
        """Whether all were shown as their history was."""

    async def read(self, row: StreamRow, hook: OutlookHook) -> Outlook | None:
        """Return what a stream showed, or shows; `None` if there is nothing of it."""
        kind = self._engine.kinds.of(row.stream)
        state = kind.state(row.stream, row.schema, row.state)
        current = state and hook(state, self._policy, self._now, self._since_at, self._until_at)
        # It has not moved since the window began, so it looked then as it does now.
        if row.at <= self._since_at or self._now <= self._since_at:
            return current
        # A stream has at most as many segments as its version says.
        spans = await self._spans(row) if row.version <= self._left else None
        # There is more history than may be read: it is shown as it is now, and the answer says so.
        if spans is None:
            self.is_exact = False
            return current
        held = [span for span in self._at_now(spans) if span.state is not None]
        shown = [(span, await self._show(span, hook)) async for span in in_slices(held)]
        if not shown:
            return current and replace(current, bands=(), fills=())
        return Outlook(
            timezone=shown[-1][1].timezone,
            bands=tuple(_join(_clip(shown, self._since_at, self._until_at))),
            fills=_fill(outlook for _, outlook in shown),
            prospects=current.prospects if current else (),
        )

    async def _spans(self, row: StreamRow) -> list[_Span] | None:
        """Return the states that held between the two instants; `None` if they are not to be had."""
        self._left -= row.version
        kind, state, policy, version = self._engine.kinds.of(row.stream), None, "", 0
        begun_at, found = self._since_at, list[_Span]()
        while version < row.version:
            _, page = await self._engine.store.history(row.stream, version, PAGE_MAX)
            async for segment in in_slices(page):
                if segment.at >= self._until_at:
                    return [*found, _Span(state, policy, begun_at, self._until_at)]
                if (checkpoint_of(segment) and segment.at > self._since_at) or len(found) > STATES_MAX:
                    return None
                # on its first day a stream is shown as it began, from the beginning of the window on
                if segment.at > begun_at and segment.version > 1:
                    found.append(_Span(state, policy, begun_at, segment.at))
                    begun_at = segment.at
                state, policy = fold_segment(kind, state, segment), segment.policy
                version = segment.version
            if not page:
                break
        return [*found, _Span(state, policy, begun_at, self._until_at)]

    def _at_now(self, spans: list[_Span]) -> list[_Span]:
        """Return the spans with the last one cut at now: what lies ahead goes by the policy in force."""
        last = spans[-1]
        if not last.since_at < self._now < last.until_at:
            return spans
        ahead = _Span(last.state, self._policy.fingerprint, self._now, last.until_at)
        return [*spans[:-1], last._replace(until_at=self._now), ahead]

    async def _show(self, span: _Span, hook: OutlookHook) -> Outlook:
        return hook(span.state, await self._policy_named(span.policy), span.since_at, span.since_at, span.until_at)

    async def _policy_named(self, fingerprint: str) -> Policy:
        """Return a policy that a segment names; the one in force if it is gone or does not fit this version."""
        if fingerprint not in self._policies:
            try:
                self._policies[fingerprint] = await recorded_policy(self._engine, fingerprint)
            except NotReproducible:
                self.is_exact, self._policies[fingerprint] = False, self._policy
        return self._policies[fingerprint]


def _clip(shown: list[tuple[_Span, Outlook]], since_at: Instant, until_at: Instant) -> Iterable[Band]:
    """Yield bands of each state, no longer than it held; a digest is an instant, drawn as if it lasted."""
    for span, outlook in shown:
        for band in outlook.bands:
            # One that began before the window keeps its beginning.
            begin = band.since_at if span.since_at == since_at else max(band.since_at, span.since_at)
            end = band.until_at
            if span.until_at != until_at and band.name != "digest":
                end = span.until_at if end is None else min(end, span.until_at)
            if end is None or end > begin:
                yield replace(band, since_at=begin, until_at=end)


def _join(bands: Iterable[Band]) -> list[Band]:
    """Return bands in which those of one name that touch are one."""
    joined: dict[tuple[str, str], list[Band]] = {}
    for band in sorted(bands, key=lambda band: band.since_at):
        same = joined.setdefault((band.name, band.label), [])
        last = same[-1] if same else None
        if last is not None and (last.until_at is None or band.since_at <= last.until_at):
            lasts = last.until_at is None or band.until_at is None
            same[-1] = replace(last, until_at=None if lasts else max(last.until_at, band.until_at))  # type: ignore[type-var]
        else:
            same.append(band)
    return sorted((band for same in joined.values() for band in same), key=lambda band: band.since_at)


def _fill(outlooks: Iterable[Outlook]) -> tuple[WindowFill, ...]:
    """Return windows with all that counted in them at any time, under the last cap."""
    fills: dict[tuple[str, int], WindowFill] = {}
    counted: dict[tuple[str, int], Counter[Instant]] = {}
    for outlook in outlooks:
        for fill in outlook.fills:
            name = fill.name, fill.span_s
            fills[name] = fill
            counted[name] = counted.get(name, Counter()) | Counter(fill.counted)
    return tuple(replace(fill, counted=tuple(sorted(counted[name].elements()))) for name, fill in fills.items())
