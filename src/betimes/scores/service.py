"""Scores: create, read, tend, pause and adjust them, and read their history.

Every write answers with the score as that write left it, also when it is answered from the record. Sweeps are in
`betimes.scores.sweep`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, TypeAlias

import msgspec

from betimes.core.canonical import fingerprint
from betimes.core.checks import Examined, Problem, Rule, broken_rules, obey, refusal
from betimes.core.datetimes import Moment, instant
from betimes.core.deciders import Command
from betimes.core.errors import BetimesError, NotFound, Refused
from betimes.core.instants import Instant, render
from betimes.core.names import Id
from betimes.core.policies import Policy
from betimes.core.segments import Recorded, Segment
from betimes.domain.derivation import derive
from betimes.domain.paging import (
    Listing,
    Page,
    after_row,
    check_filters,
    checked_limit,
    cursor_after,
    page_of,
)
from betimes.domain.segment_lists import list_rows
from betimes.domain.service import check_request, require_list
from betimes.engine.store import StreamQuery, StreamRow
from betimes.scores.amounts import Micro, micro
from betimes.scores.model import (
    KIND,
    SCORES,
    AdjustScore,
    CreateScore,
    Interact,
    Reply,
    ScoreAdjusted,
    ScoreState,
    SetStatus,
)
from betimes.scores.policy import PauseSeconds, ScoresPolicy, StageName, Word
from betimes.scores.sweep import Sweeps
from betimes.scores.views import (
    AdjustAnswer,
    HistoryEntry,
    HistoryType,
    InteractionAnswer,
    Score,
    WrittenScore,
    as_of,
    decay_result,
    history_entries,
    score_view,
    written_score,
)

Reason: TypeAlias = Annotated[str, msgspec.Meta(max_length=200)]
_Imported: TypeAlias = list[WrittenScore | BetimesError]
SCORES_MAX = 500
"""Scores that one page of a list looks at: each is computed as of now before it can be compared."""
READ_MAX = 250


def _points(name: str, value: Decimal | None, low: int, high: int) -> Micro | None:
    """Return the points of a field as micro-points; raise `ValueError` if they are out of bounds."""
    if value is None:
        return None
    if not value.is_finite() or not low <= value <= high:
        raise ValueError(f"{name}: must be a number from {low} to {high}")
    try:
        return micro(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


class NewScore(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new score; omitted fields come from the policy: its start, its first stage, its first active status, now."""

    user_id: Id
    score: Decimal | None = None
    chapter: StageName | None = None
    game_status: Word | None = None
    created_at: Moment | None = None
    last_interaction_at: Moment | None = None
    last_decay_applied_at: Moment | None = None

    def __post_init__(self) -> None:
        _points("score", self.score, 0, 100)


class Interaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Word
    timestamp: Moment | None = None


class StatusChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    game_status: Word
    reason: Reason | None = None
    chapter: StageName | None = None
    timeout_seconds: PauseSeconds | None = None


class Adjustment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Annotated[Reason, msgspec.Meta(min_length=1)]
    delta: Decimal | None = None
    score: Decimal | None = None

    def __post_init__(self) -> None:
        obey(
            lambda: _points("delta", self.delta, -100, 100),
            lambda: _points("score", self.score, 0, 100),
            self._check_one,
        )

    def _check_one(self) -> None:
        if (self.delta is None) == (self.score is None):
            raise ValueError("delta: give one of delta and score")


class RequestRules(msgspec.Struct, frozen=True):
    """The policy and the clock that a refused request is checked against, to name all that is wrong with it.

    Only a refused one: a recorded request is answered from the record, whatever the policy has become since.
    """

    policy: Policy
    now: Instant

    @contextmanager
    def explain_refusal(self, request: msgspec.Struct) -> Iterator[None]:
        """Turn a refusal into the paths of instants in the future and of names the policy does not know, if any."""
        try:
            yield
        except (Refused, NotFound):
            if wrong := [*broken_rules(request, self.rules(type(request)))]:
                raise refusal("field", wrong) from None
            raise

    def rules(self, kind: type[Any]) -> list[Rule[Any]]:
        """Return the rules of the fields that depend on the policy or the clock."""
        return [partial(self._judge, name) for name in kind.__struct_fields__]

    def _judge(self, name: str, request: Any) -> Iterator[Problem]:
        value, policy = getattr(request, name), self.policy[ScoresPolicy]
        if value is None:
            return
        known: dict[str, tuple[str, tuple[Any, ...]]] = {
            "game_status": ("status", (*policy.active_statuses, *policy.paused_statuses)),
            "chapter": ("stage", tuple(policy.terms)),
            "type": ("interaction", (*policy.interactions, *policy.uncounted_interactions)),
        }
        if isinstance(value, datetime) and instant(value) > self.now:
            yield name, f"{render(instant(value))} is in the future"
        elif name in known and value not in known[name][1]:
            what, names = known[name]
            yield name, f"no such {what}: {value}; known: {', '.join(map(str, names))}"
        elif name == "timeout_seconds" and request.game_status not in policy.pauses:
            yield name, "only a pause can time out"


class Scores(Sweeps):
    """Scores for one caller."""

    # -- writing

    async def create(
        self, request: NewScore | Mapping[str, Any] | Examined[NewScore], *, key: str | None = None
    ) -> WrittenScore:
        rules = await self._request_rules()
        return await self._create(check_request(request, NewScore, rules.rules(NewScore)), key, rules)

    async def _create(self, request: NewScore, key: str | None, rules: RequestRules) -> WrittenScore:
        command = derive(CreateScore, request, score=_points("score", request.score, 0, 100))
        with rules.explain_refusal(request):
            recorded = await self._write(request.user_id, "create", command, request, key)
        return await self._written_view(recorded, rules)

    async def create_many(
        self, requests: Sequence[NewScore | Mapping[str, Any]], *, keys: Sequence[str | None] = ()
    ) -> _Imported:
        """Import many: each stands alone, in order; the error of one that fails is in its place."""
        given = [*keys, *[None] * (len(require_list(requests, "items")) - len(keys))]
        # In windows, so that the policy is read anew now and then and the queue is not filled by one import.
        window = self.engine.settings.batch_max
        answers: _Imported = []
        for start in range(0, len(requests), window):
            rules = await self._request_rules()
            at_once = zip(requests[start : start + window], given[start : start + window], strict=True)
            answers += await asyncio.gather(*(self._create_or_error(request, key, rules) for request, key in at_once))
        return answers

    async def _create_or_error(
        self, request: NewScore | Mapping[str, Any], key: str | None, rules: RequestRules
    ) -> WrittenScore | BetimesError:
        try:
            return await self._create(check_request(request, NewScore, rules.rules(NewScore)), key, rules)
        except BetimesError as error:
            return error

    async def interact(
        self, user_id: str, request: Interaction | Mapping[str, Any] | Examined[Interaction], *, key: str | None = None
    ) -> InteractionAnswer:
        """Record an interaction.

        Creates the score if it is new. Outstanding decay is settled first.
        """
        rules = await self._request_rules()
        request = check_request(request, Interaction, rules.rules(Interaction))
        at = instant(request.timestamp)
        with rules.explain_refusal(request):
            recorded = await self._write(user_id, "interact", Interact(request.type, at), request, key)
        reply = _reply(recorded)
        decay = decay_result(user_id, reply.decay, recorded.at, recorded.segment_id) if reply.decay else None
        return derive(InteractionAnswer, await self._written_view(recorded, rules), reply, decay=decay)

    async def set_status(
        self,
        user_id: str,
        request: StatusChange | Mapping[str, Any] | Examined[StatusChange],
        *,
        key: str | None = None,
    ) -> WrittenScore:
        rules = await self._request_rules()
        request = check_request(request, StatusChange, rules.rules(StatusChange))
        command = SetStatus(request.game_status, request.reason or "", request.chapter, request.timeout_seconds)
        with rules.explain_refusal(request):
            recorded = await self._write(user_id, "status", command, request, key)
        return await self._written_view(recorded, rules)

    async def adjust(
        self, user_id: str, request: Adjustment | Mapping[str, Any] | Examined[Adjustment], *, key: str | None = None
    ) -> AdjustAnswer:
        """Adjust a score.

        By `delta`, or to `score`; the result stays between 0 and 100.
        """
        request = check_request(request, Adjustment)
        command = AdjustScore(
            request.reason, _points("delta", request.delta, -100, 100), _points("score", request.score, 0, 100)
        )
        recorded = await self._write(user_id, "adjust", command, request, key)
        [adjusted] = [event for event in await self._events(recorded) if isinstance(event, ScoreAdjusted)]
        entry = history_entries(await self._segment(recorded), (adjusted,))[0]
        return derive(AdjustAnswer, entry, adjusted, user_id=user_id)

    async def _write(self, user_id: str, what: str, command: Command, request: Any, key: str | None) -> Recorded:
        agreed = fingerprint((what, user_id, request)) if key else ""
        return await self.submit(self.stream(KIND, user_id), command, key=key, collection=SCORES, request=agreed)

    async def _written_view(self, recorded: Recorded, rules: RequestRules) -> WrittenScore:
        """Return the score as the write left it, by the policy it was decided under."""
        policy = rules.policy
        # A replay is shown by the policy of its time.
        if policy.fingerprint != recorded.policy and (body := await self.engine.store.policy(recorded.policy)):
            policy = self.engine.book.from_stored(body)
        state = _reply(recorded).state
        return written_score(recorded.stream.id, state, policy[ScoresPolicy], recorded.at, recorded.segment_id)

    async def _segment(self, recorded: Recorded) -> Segment:
        _, segments = await self.engine.store.history(recorded.stream, recorded.version - 1, 1)
        if not segments:
            raise NotFound(f"{recorded.segment_id} was pruned from the history")
        return segments[0]

    async def _events(self, recorded: Recorded) -> tuple[Any, ...]:
        return self.engine.kinds.of(recorded.stream).events(await self._segment(recorded))

    async def _request_rules(self) -> RequestRules:
        return RequestRules(await self.engine.policy_of(self.caller.tenant), await self.engine.store.now())

    # -- reading

    async def get(self, user_id: str) -> Score:
        stream = self.stream(KIND, user_id)
        row = (await self.engine.store.load([stream])).get(stream)
        state = row and self.engine.kinds.state_in(stream, row)
        if row is None or state is None:
            raise NotFound(f"there is no score of {user_id!r}; create it, or send an interaction")
        policy = (await self.engine.policy_of(self.caller.tenant))[ScoresPolicy]
        return score_view(user_id, state, policy, await self.engine.store.now(), row.at)

    @check_filters
    async def list(
        self,
        *,
        game_status: str | None = None,
        chapter: str | int | None = None,
        overdue: bool | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Score]:
        """List scores, the last created first.

        A page that finds little in a long list may be short and still not be the last.
        """
        filters = ["scores", self.caller.tenant, game_status, chapter if chapter is None else str(chapter), overdue]
        size = checked_limit(limit)
        query = page_of(StreamQuery(tenant=self.caller.tenant, kind=KIND, limit=READ_MAX), cursor, filters)
        is_wanted = partial(_fits, game_status=game_status, chapter=chapter, overdue=overdue)
        return await self._page(query, filters, size, is_wanted)

    async def _page(
        self, query: StreamQuery, filters: Sequence[Any], size: int, is_wanted: Callable[[Score], bool]
    ) -> Page[Score]:
        """Look through the rows from the query's place on; what is wanted depends on the policy and the time."""
        policy = (await self.engine.policy_of(self.caller.tenant))[ScoresPolicy]
        now = await self.engine.store.now()
        found: Listing[Score] = Listing()
        last: StreamRow | None = None
        for _ in range(SCORES_MAX // READ_MAX):
            rows = await self.engine.store.streams(query)
            for row in rows:
                with found.reading(row.stream):
                    score = self._row_view(row, policy, now)
                    if is_wanted(score):
                        found.items.append(score)
                if len(found) == size:
                    return found.page(cursor_after(filters, row))
            if len(rows) < READ_MAX:
                return found.page()
            last = rows[-1]
            query = after_row(query, last)
        return found.page(cursor_after(filters, last) if last else None)

    def _row_view(self, row: StreamRow, policy: ScoresPolicy, now: Instant) -> Score:
        state: ScoreState = self.engine.kinds.state_in(row.stream, row)
        return score_view(row.stream.id, as_of(state, policy, now), policy, now, row.at)

    @check_filters
    async def history(
        self, user_id: str, *, event_type: HistoryType | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[HistoryEntry]:
        """List the history of a score, newest first."""
        filters = ["score history", self.caller.tenant, user_id, event_type]
        stream = self.stream(KIND, user_id)
        if stream not in await self.engine.store.load([stream]):
            raise NotFound(f"there is no score of {user_id!r}; create it, or send an interaction")
        found, more = await list_rows(
            self.engine,
            stream,
            lambda segment, events: enumerate(history_entries(segment, tuple(events)), start=1),
            filters,
            limit,
            cursor,
            lambda entry: event_type in (None, entry.event_type),
        )
        return found.page(more)


def _fits(score: Score, game_status: str | None, chapter: str | int | None, overdue: bool | None) -> bool:
    return (
        (game_status is None or score.game_status == game_status)
        and (chapter is None or str(score.chapter) == str(chapter))
        and (overdue is None or (score.hours_overdue > 0) == overdue)
    )


def _reply(recorded: Recorded) -> Reply:
    reply = recorded.reply
    assert isinstance(reply, Reply), f"{recorded.segment_id} has no score in its reply"
    return reply
