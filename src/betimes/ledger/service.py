"""The ledger as a caller may read it: segments of the domains it may see, without secrets, and why each was decided."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from betimes.catalogue import DOMAINS
from betimes.core.datetimes import instant
from betimes.core.errors import Invalid, MalformedRow, NewerVersion, NotFound, UnknownKind
from betimes.core.segments import Segment
from betimes.core.streams import StreamId, parse_cause, parse_segment_handle
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.paging import (
    PAGE_CHARS_MAX,
    CursorPlace,
    Listing,
    Position,
    UnreadableRow,
    check_filters,
    checked_limit,
    cursor_of,
    place_of,
)
from betimes.domain.service import TraceStep, check_request, in_slices, trace_of
from betimes.domain.struct_forms import From
from betimes.engine.codecs import checkpoint_of, repair_of
from betimes.engine.explanation import Explanation, explain, summarise_segment
from betimes.engine.store import LedgerQuery
from betimes.ledger.alternative_search import AlternativesView
from betimes.ledger.alternatives import find_alternatives
from betimes.ledger.effects import NUMBER_MAX, Effects, EffectView
from betimes.ledger.health import Health
from betimes.ledger.judgements import JudgedView, find_others, judged_things, judged_views
from betimes.ledger.known_names import unknown_name
from betimes.ledger.meta import Meta
from betimes.ledger.outcomes import OutcomeView, verdict_outcome
from betimes.ledger.reader import When, domain_of
from betimes.ledger.recorded_types import check_types, has_type
from betimes.ledger.redaction import redact
from betimes.ledger.rule_views import ExplainedRuleView, RuleTables, explain_rules, list_rule_tables
from betimes.ledger.search import Search
from betimes.ledger.statistics import Statistics
from betimes.ledger.stream_list import StreamList
from betimes.ledger.timeline import Timeline
from betimes.ledger.verdict_feed import DecodedSegment, VerdictEvent
from betimes.ledger.verdict_list import VerdictList

LOOKED_AT_MAX = 500
"""Segments that one page looks at, where no index has what it is narrowed by."""
JUDGEMENTS_MAX = 25
"""Judgements of the same thing that are shown before one, and after it."""
Order: TypeAlias = Literal["asc", "desc"]
_TIMEZONES = {kind: timezone_of for domain in DOMAINS for kind, timezone_of in domain.timezones.items()}
_PERSONS = tuple(
    streams.kind
    for domain in DOMAINS
    for streams in domain.subjects
    if streams.subject == "user_id" and not streams.by_owner and streams.kind in _TIMEZONES
)
"""Kinds of streams that are a person's, under their id, and know their zone."""


class SegmentView(JsonView, frozen=True, kw_only=True):
    segment_id: str
    domain: str
    kind: str
    id: str
    version: int
    at: datetime
    key: str | None
    command: dict[str, Any] | None
    """`None` of a stream that another stream's command wrote to."""
    events: list[dict[str, Any]]
    verdict: OutcomeView | None
    policy: str
    actor: str
    correlation_id: Annotated[str, From("correlation")]
    note: str
    """The caller's note: why it was asked for; may be empty."""


class SegmentPage(JsonView, frozen=True):
    items: list[SegmentView]
    next_cursor: str | None
    resume_cursor: str
    """Pass it later, in ascending order, to read newer segments."""
    unreadable: tuple[UnreadableRow, ...] = ()
    """Segments of this page that cannot be shown. They count towards `limit`."""


class LedgerPlace(CursorPlace, frozen=True, array_like=True, forbid_unknown_fields=True):
    after: Position
    newest: Position
    """The newest segment that was there when the list began."""


class CausedBy(JsonView, frozen=True):
    """The segment that led to another."""

    segment_id: str
    effect_id: str | None
    """The effect that brought the command; `null` if the same turn wrote both, or a worker acted on the segment."""


class ExplanationView(SegmentView, frozen=True, kw_only=True):
    trace: list[TraceStep]
    rules: list[ExplainedRuleView]
    """Every rule of the table, in order, with its sentence: those that were checked, then those not reached."""
    summary: str
    timezone: str | None
    """The current zone of its schedule, intent or user; `null` if unknown."""
    policy_in_force: str
    """The fingerprint of the policy in force now; differs from `policy` if it has changed since."""
    caused_by: CausedBy | None
    caused: list[str]
    """Segments that it led to: others of its turn, commands it sent to other streams, what workers did because of it;
    among those that follow it closely, and those of its correlation."""
    effects: list[EffectView]
    """Calls and deliveries it caused, and pending commands to other streams; one that was applied is a segment."""
    unreadable: tuple[UnreadableRow, ...] = ()
    """Effects that cannot be shown."""
    later: list[str]
    """Retries and re-judgements of the same cause."""
    judged: list[JudgedView]
    """The notifications or triggers that it judged."""
    judgements: list[VerdictEvent]
    """Every judgement of these, oldest first, this one included; of very many, those around it."""


class LedgerFilters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: str | None = None
    id: str | None = None
    event_type: str | None = None
    command_type: str | None = None
    """Such as `Wake`, of alarms that rang."""
    key: str | None = None
    correlation_id: str | None = None
    since: When = None
    """Included."""
    until: When = None
    """Not included."""


class Ledger(Meta, Statistics, VerdictList, Timeline, StreamList, Search, Health):
    """Reads what happened and what comes next, in the domains it is given."""

    # -- lists

    @check_filters
    async def segments(
        self,
        filters: LedgerFilters | Mapping[str, Any],
        *,
        order: Order = "asc",
        limit: int = 50,
        cursor: str | None = None,
    ) -> SegmentPage:
        """A page in commit order, or backwards.

        In commit order. `resume_cursor` leads on to what is committed later, in ascending order under the same filters.
        Segments of domains the key may not read are left out; `admin` also sees the kind `tenant`. Secrets are never
        shown.
        """
        filters = check_request(filters, LedgerFilters)
        checked_limit(limit)
        if filters.kind is not None and filters.kind not in self.engine.kinds.names:
            raise unknown_name("kind", filters.kind, self.engine.kinds.names)
        among = self.engine.kinds.names if filters.kind is None else (filters.kind,)
        check_types(self.engine.kinds, among, command_type=filters.command_type, event_type=filters.event_type)
        named = ["ledger", self.caller.tenant, filters]
        begin = place_of(cursor, [*named, order], LedgerPlace) or LedgerPlace(0, 0)
        backwards = order == "desc"
        found, place, is_more = await self._scan(filters, begin.after, limit, backwards=backwards)
        # Backwards the newest segment was seen on the first page, and later pages carry its place along.
        resume = (begin.newest or (found[0].seq if found else 0)) if backwards else place
        views: Listing[SegmentView] = Listing()
        async for segment in in_slices(found):
            with views.reading(segment):
                views.items.append(self.view(segment))
        return SegmentPage(
            views.items,
            cursor_of([*named, order], LedgerPlace(place, resume)) if is_more else None,
            cursor_of([*named, "asc"], LedgerPlace(resume, 0)),
            tuple(views.unreadable),
        )

    async def _scan(
        self, filters: LedgerFilters, place: int, limit: int, *, backwards: bool
    ) -> tuple[list[Segment], int, bool]:
        """Segments that are wanted, how far was looked, and whether there may be more."""
        found: list[Segment] = []
        if filters.kind is not None and not self.may_see(filters.kind):
            return found, place, False
        size = limit + 1 if filters.event_type is filters.command_type is None else LOOKED_AT_MAX
        chars = looked_at = 0
        while looked_at < LOOKED_AT_MAX:
            page = await self.engine.store.ledger(self._query(filters, place, size, backwards=backwards))
            for segment in page:
                if self._is_wanted(segment, filters):
                    chars += len(segment.command or "") + len(segment.events)
                    # One is shown however long it is, or the list would never get past it.
                    if len(found) == limit or (found and chars > PAGE_CHARS_MAX):
                        return found, place, True
                    found.append(segment)
                place = segment.seq
            if len(page) < size:
                return found, place, False
            looked_at += size
            size = max(1, LOOKED_AT_MAX - looked_at)  # some are of domains the caller may not see
        return found, place, True

    def _query(self, filters: LedgerFilters, place: int, size: int, *, backwards: bool) -> LedgerQuery:
        return LedgerQuery(
            after=place,
            backwards=backwards,
            tenant=self.caller.tenant,
            kind=filters.kind,
            # An index has ids only within their kind; without one they are compared afterwards.
            id=None if filters.kind is None else filters.id,
            key=filters.key,
            correlation=filters.correlation_id or None,
            since_at=instant(filters.since),
            until_at=instant(filters.until),
            limit=size,
        )

    def _is_wanted(self, segment: Segment, filters: LedgerFilters) -> bool:
        if not self.may_see(segment.stream.kind):
            return False
        if filters.id not in (None, segment.stream.id) or filters.correlation_id not in (None, segment.correlation):
            return False
        return has_type(segment.events, filters.event_type) and has_type(segment.command, filters.command_type)

    def view(self, segment: Segment) -> SegmentView:
        return derive(
            SegmentView,
            segment,
            segment.stream,
            segment_id=segment.handle,
            domain=domain_of(segment.stream.kind),
            key=segment.key and segment.key.key,
            command=self._command(segment),
            events=self._events(segment),
            verdict=verdict_outcome(self.engine.kinds, segment),
        )

    def _command(self, segment: Segment) -> dict[str, Any] | None:
        if segment.command is None:
            return None
        checkpoint = checkpoint_of(segment)
        if checkpoint:
            return {"type": "Checkpoint", "segments": checkpoint.segments}
        if repair := repair_of(segment):
            return {"type": "Repair", "why": repair.why, "lost": list(repair.lost)}
        command = self.engine.kinds.of(segment.stream).command(segment.command, segment)
        told: dict[str, Any] = redact(command, segment.stream.kind)
        return told

    def _events(self, segment: Segment) -> list[dict[str, Any]]:
        if checkpoint_of(segment):
            return []
        told = [redact(event, segment.stream.kind) for event in self.engine.kinds.of(segment.stream).events(segment)]
        return [{"type": event.pop("type"), "v": segment.schema, **event} for event in told]

    # -- why

    async def rules(self) -> RuleTables:
        """Return every table of rules, with the mode of each rule under the policy in force.

        The rule tables of the domains the key may read, in order: the values each rule records, its sentences, the
        settings it uses, and its mode under the policy in force.
        """
        return list_rule_tables(self._domains, await self.engine.policy_of(self.caller.tenant))

    async def alternatives(self, segment_id: str) -> AlternativesView:
        """Return what would have had to be different for a better answer; raise `NotFound` without the segment.

        Decides the segment again with everything as it was, then searches the smallest change of each kind that
        gives a better answer: the instant, a rule that is not enforced, one setting, the request, the user or the
        definition. At most 200 decisions and half a second.
        """
        stream, version = self._demand_segment_id(segment_id)
        _, page = await self.engine.store.history(stream, version - 1, 1)
        if not page or page[0].version != version:
            raise NotFound(f"there is no segment {segment_id[:80]}; it was never written, or it was pruned")
        return await find_alternatives(self.engine, page[0])

    def _demand_segment_id(self, segment_id: str) -> tuple[StreamId, int]:
        """Return the stream and version that a segment id names; raise `NotFound` if the caller may not read it."""
        unknown = NotFound(f"there is no segment {segment_id[:80]!r}; a segment id looks like kind:id:version")
        try:
            stream, version = parse_segment_handle(self.caller.tenant, segment_id)
            self.engine.kinds.of(stream)
        except (Invalid, UnknownKind):
            raise unknown from None
        if not self.may_see(stream.kind) or version > NUMBER_MAX:
            raise unknown
        return stream, version

    async def explain(self, segment_id: str) -> ExplanationView:
        """A segment with every rule that was looked at, its cause and its consequences; or `NotFound`.

        A segment with every rule that was checked and the values it saw, its cause, and its consequences.
        """
        stream, version = self._demand_segment_id(segment_id)
        told = await explain(self.engine.store, self.engine.kinds, stream, version)
        effects = await self._effects_of(told)
        view = self.view(told.segment)
        return derive(
            ExplanationView,
            view,
            trace=trace_of(self.engine.kinds, told.verdict),
            rules=explain_rules(self.engine.kinds, told.verdict),
            timezone=await self._timezone_of(stream),
            policy_in_force=(await self.engine.policy_of(self.caller.tenant)).fingerprint,
            summary=self._summary(told, view.verdict),
            caused_by=self._caused_by(told),
            caused=[one.handle for one in told.caused if self.may_see(one.stream.kind)],
            effects=effects.items,
            unreadable=tuple(effects.unreadable),
            **await self._judgements(told.segment),
        )

    def _summary(self, why: Explanation, outcome: OutcomeView | None) -> str:
        """Say in a few sentences what was decided and what else was written, as far as the caller may see it."""
        if checkpoint_of(why.segment):
            handle = why.segment.handle
            return f"{handle} replaces all earlier history, which was pruned; nothing was decided here."
        told = [summarise_segment(why.segment, why.verdict, why.steps, answer=outcome.outcome if outcome else None)]
        if same_turn := [one.handle for one in why.same_turn if self.may_see(one.stream.kind)]:
            told.append(f"The same turn also wrote {', '.join(same_turn)}.")
        if why.effects:
            told.append(f"It caused {len(why.effects)} {'effect' if len(why.effects) == 1 else 'effects'}.")
        return " ".join(told)

    async def _effects_of(self, told: Explanation) -> Listing[EffectView]:
        found, effects = Listing[EffectView](), Effects(self.engine, self.caller, self._domains)
        for row in told.effects:
            with found.reading(row.id):
                found.items.append(await effects.view(row))
        return found

    async def _timezone_of(self, stream: StreamId) -> str | None:
        """Return the zone of a stream; of one that has none, such as an account, that of the person of its name."""
        kinds = (stream.kind,) if stream.kind in _TIMEZONES else _PERSONS
        for kind in kinds:
            if self.may_see(kind):
                with suppress(MalformedRow, NewerVersion):  # the segments of such a stream are explained all the same
                    [state] = await self.engine.load_states(StreamId(stream.tenant, kind, stream.id))
                    return _TIMEZONES[kind](state) if state else None
        return None

    def _caused_by(self, told: Explanation) -> CausedBy | None:
        segment, first = told.segment, told.first_of_turn
        try:
            if first is not segment:
                segment_id, effect_id = first.handle, None
            else:
                segment_id, effect_id = parse_cause(self.caller.tenant, segment.cause)
        except Invalid:
            return None
        is_known = self.may_see(parse_segment_handle(self.caller.tenant, segment_id)[0].kind)
        return CausedBy(segment_id, effect_id) if is_known else None

    async def _judgements(self, segment: Segment) -> dict[str, Any]:
        """Return what a segment judged, and every judgement of it before and after."""
        before, after = await find_others(self.engine, segment)
        known: dict[str | int, str] = {}
        async for one in in_slices(before):
            judged_views(judged_things(self.engine.kinds, one), known)
        judged = judged_views(judged_things(self.engine.kinds, segment), known)
        near = [*before[-JUDGEMENTS_MAX:], segment, *after[:JUDGEMENTS_MAX]] if judged else []
        return {
            "later": [one.handle for one in after],
            "judged": judged,
            "judgements": [
                event async for one in in_slices(near) for _, event in DecodedSegment(self.engine, one).events
            ],
        }
