"""Actions on dead letters: retry or discard, one or all that match a filter, oldest first, recorded in the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from betimes.core.checks import refusal
from betimes.core.datetimes import Moment, instant, moment
from betimes.core.errors import BetimesError, NotFound, Refused
from betimes.core.streams import EffectId
from betimes.domain.json_view import JsonView
from betimes.domain.operations.model import SUBJECTS_MAX, Note
from betimes.domain.operations.service import record_operation
from betimes.domain.paging import LOOKED_AT_MAX, InstantPlace, cursor_of, place_of
from betimes.domain.service import check_request
from betimes.engine.store import PAGE_MAX, EffectQuery, EffectRow
from betimes.ledger.effects import EffectChoice, EffectKind, Effects, EffectView, kind_of, status_of

GROUPS_MAX = 100
ERROR_CHARS_SHOWN = 300
SKIPPED_MAX = 20
EFFECT_CHARS_MAX = 300
FIRST = "the effect was changed by somebody else; read it again"
Action: TypeAlias = Literal["retry", "discard"]
REFUSALS: dict[Action, str] = {"retry": "NOT_RETRYABLE", "discard": "NOT_DISCARDABLE"}


class DeadLetterFilter(EffectChoice, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A filter for dead letters; an omitted field matches all."""

    since: Moment | None = None
    """Asked for at this instant or later."""
    until: Moment | None = None
    """Asked for before this instant."""

    def fits(self, row: EffectRow) -> bool:
        return (
            super().fits(row)
            and (self.since is None or row.created_at >= instant(self.since))
            and (self.until is None or row.created_at < instant(self.until))
        )


EffectName: TypeAlias = Annotated[str, msgspec.Meta(max_length=EFFECT_CHARS_MAX)]
"""The id of an effect. Longer than any can be is refused, since answers name those that were not found."""


class EffectsAction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Either `ids` or `filter`."""

    ids: Annotated[tuple[EffectName, ...], msgspec.Meta(min_length=1, max_length=SUBJECTS_MAX)] | None = None
    filter: DeadLetterFilter | None = None
    """Empty for all."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=SUBJECTS_MAX)] | None = None
    """Maximum for this call, 500 by default; only with a filter."""
    cursor: str | None = None
    """The `next_cursor` of the call before, with the same filter."""
    note: Note | None = None


class SkippedEffect(JsonView, frozen=True):
    effect_id: str
    code: str
    message: str


class EffectsOutcome(JsonView, frozen=True):
    action: Action
    done: int
    skipped: int
    """Matching dead letters that were skipped: expired, or changed meanwhile."""
    skipped_first: list[SkippedEffect]
    """The first of them."""
    oldest_at: datetime | None
    complete: bool
    """Whether nothing that matches is left; if not, call again with `next_cursor`."""
    next_cursor: str | None
    segment_id: str | None
    """Of the record of it; `None` if nothing was found."""


class EffectGroup(JsonView, frozen=True):
    executor: str
    effect_kind: EffectKind
    error: str
    count: int
    oldest_at: datetime
    newest_at: datetime
    effect_id: str
    """The oldest of them."""


class EffectGroups(JsonView, frozen=True):
    groups: list[EffectGroup]
    """The largest first, at most 100."""
    counted: int
    """Matching dead letters in all groups, including groups not shown."""
    complete: bool
    """Whether all were read; only the oldest 1,000 are."""


class EffectActions(Effects):
    """The dead letters of the domains it is given, to act on."""

    async def retry(self, effect_id: str, *, note: Note | None = None) -> EffectView:
        """Give a dead letter fresh attempts.

        Parameters
        ----------
        note
            Why, for the record.
        """
        await self._act_on_one("retry", effect_id, note)
        return await self.view(await self._row(effect_id))

    async def discard(self, effect_id: str, *, note: Note | None = None) -> None:
        """Remove a dead letter for good; its attempts stay in the record of the operation's caller only.

        Parameters
        ----------
        note
            Why, for the record.
        """
        await self._act_on_one("discard", effect_id, note)

    async def _act_on_one(self, action: Action, effect_id: str, note: str | None) -> None:
        row = await self._row(effect_id)
        if objection := _refuse_living(action, row):
            raise Refused(REFUSALS[action], objection)
        if action == "retry" and (objection := await self._objection(row)):
            raise Refused(REFUSALS[action], objection)
        # On record first: a process that dies in between leaves who asked.
        await record_operation(self, "effects", action, [effect_id], note=note)
        if not await self._carry_out(action, [row]):
            raise Refused(REFUSALS[action], FIRST)

    async def retry_matching(self, request: EffectsAction | Mapping[str, Any]) -> EffectsOutcome:
        """Give dead letters that are named or that fit fresh attempts, the oldest first."""
        return await self._act("retry", _check_choice(request))

    async def discard_matching(self, request: EffectsAction | Mapping[str, Any]) -> EffectsOutcome:
        """Remove dead letters that are named or that fit, the oldest first."""
        return await self._act("discard", _check_choice(request))

    async def _act(self, action: Action, asked: EffectsAction) -> EffectsOutcome:
        rows, missing, more = await self._choose(asked)
        if not rows:
            return EffectsOutcome(action, 0, len(missing), missing[:SKIPPED_MAX], None, more is None, more, None)
        ids = [row.id.handle for row in rows]
        # As above: the record names all that were chosen, also those that turn out to be left.
        on_record = await record_operation(self, "effects", action, ids, note=asked.note, chosen_by=asked.filter)
        skipped = [*missing, *await self._act_on(action, rows)]
        return EffectsOutcome(
            action,
            len(rows) + len(missing) - len(skipped),
            len(skipped),
            skipped[:SKIPPED_MAX],
            moment(min(row.created_at for row in rows)),
            more is None,
            more,
            on_record,
        )

    async def _choose(self, asked: EffectsAction) -> tuple[list[EffectRow], list[SkippedEffect], str | None]:
        """Return the selected dead letters, the ids that were not found, and the cursor of the next call."""
        if asked.filter is not None:
            named = ["dead letters", self.caller.tenant, asked.filter]
            rows, place = await self._matching(
                asked.filter, place_of(asked.cursor, named, InstantPlace), asked.limit or SUBJECTS_MAX
            )
            return rows, [], cursor_of(named, place) if place else None
        rows, missing = [], []
        for effect_id in dict.fromkeys(asked.ids or ()):
            try:
                rows.append(await self._row(effect_id))
            except NotFound as error:
                missing.append(SkippedEffect(effect_id, error.code, str(error)))
        return rows, missing, None

    async def _act_on(self, action: Action, rows: list[EffectRow]) -> list[SkippedEffect]:
        """Carry out an action in one commit; return those that were left, in order, each with the reason."""
        objections: dict[str, tuple[str, str]] = {}
        for row in rows:
            try:
                if objection := _refuse_living(action, row) or (action == "retry" and await self._objection(row)):
                    objections[row.id.handle] = REFUSALS[action], objection
            except BetimesError as error:
                objections[row.id.handle] = getattr(error, "reason", error.code), str(error)
        done = await self._carry_out(action, [row for row in rows if row.id.handle not in objections])
        late = REFUSALS[action], FIRST
        return [
            SkippedEffect(row.id.handle, *objections.get(row.id.handle, late)) for row in rows if row.id not in done
        ]

    async def _carry_out(self, action: Action, rows: list[EffectRow]) -> set[EffectId]:
        """Return the effects that were changed: those that no other process changed in the meantime."""
        store, ids = self.engine.store, [row.id for row in rows]
        return {*await (store.revive_effects(ids) if action == "retry" else store.discard_effects(ids))}

    async def _matching(
        self,
        chosen: DeadLetterFilter,
        place: InstantPlace | None,
        limit: int,
        keep: Callable[[EffectRow], EffectRow] = lambda row: row,
    ) -> tuple[list[EffectRow], InstantPlace | None]:
        """Return the oldest dead letters that match, and the position of the next page, if there may be more."""
        query = EffectQuery(tenant=self.caller.tenant, status="dead", oldest_first=True, limit=PAGE_MAX)

        def is_wanted(row: EffectRow) -> bool:
            return self.may_see(row.id.kind) and chosen.fits(row)

        return await self._look_through(query, place, limit, is_wanted, keep)

    async def groups(self, chosen: DeadLetterFilter | Mapping[str, Any]) -> EffectGroups:
        """Count dead letters that fit by executor and error: what a retry or a discard would reach."""
        chosen = check_request(chosen, DeadLetterFilter)
        rows, more = await self._matching(chosen, None, LOOKED_AT_MAX, _without_payload)
        groups: dict[tuple[str, str], list[EffectRow]] = {}
        for row in rows:
            groups.setdefault((row.executor, row.last_error[:ERROR_CHARS_SHOWN]), []).append(row)
        views = [_group_view(*name, members) for name, members in groups.items()]
        views.sort(key=lambda view: (-view.count, view.executor, view.error))
        return EffectGroups(views[:GROUPS_MAX], len(rows), more is None)


def _check_choice(request: EffectsAction | Mapping[str, Any]) -> EffectsAction:
    """Return the request; raise `Invalid` unless it names effects or has a filter."""
    asked = check_request(request, EffectsAction)
    if (asked.ids is None) == (asked.filter is None):
        raise refusal("field", [("ids", "give either ids or a filter; an empty filter selects all")])
    paging = [name for name in ("limit", "cursor") if getattr(asked, name) is not None]
    if asked.ids and paging:
        message = "only with a filter; effects given by id are all handled in one call: leave it out"
        raise refusal("field", [(name, message) for name in paging])
    return asked


def _refuse_living(action: Action, row: EffectRow) -> str:
    """Return why an effect that is not dead cannot be acted on."""
    done = "tried again" if action == "retry" else "discarded"
    return "" if row.status == "dead" else f"the effect is {status_of(row)}; only a dead letter can be {done}"


def _without_payload(row: EffectRow) -> EffectRow:
    """Return the row as far as it is counted: thousands of payloads would not fit into memory."""
    return row._replace(payload="", history=())


def _group_view(executor: str, error: str, members: list[EffectRow]) -> EffectGroup:
    oldest, newest = members[0], members[-1]
    return EffectGroup(
        executor,
        kind_of(oldest),
        error,
        len(members),
        moment(oldest.created_at),
        moment(newest.created_at),
        oldest.id.handle,
    )
