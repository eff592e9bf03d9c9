"""Changes of many definitions at once: named, or all that a filter finds; each is a segment of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from copy import copy
from inspect import signature
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from betimes.core.checks import broken_rules, refusal
from betimes.core.errors import BetimesError, Invalid
from betimes.core.names import Id
from betimes.domain.json_view import JsonView
from betimes.domain.operations.model import SUBJECTS_MAX, Note
from betimes.domain.operations.service import record_operation
from betimes.domain.paging import LIMIT_MAX
from betimes.domain.service import Service, check_request

BulkAction: TypeAlias = Literal["enable", "disable", "delete"]
AT_ONCE = 50
"""Changes that are submitted together: they share commits."""
PAGING = frozenset({"limit", "cursor"})


class BulkRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Either `ids` or `filter`."""

    action: BulkAction
    ids: Annotated[tuple[Id, ...], msgspec.Meta(min_length=1, max_length=SUBJECTS_MAX)] | None = None
    filter: dict[str, Any] | None = None
    """The parameters of the list; empty for all."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=SUBJECTS_MAX)] = SUBJECTS_MAX
    """Of those that the filter finds, how many in this call."""
    cursor: str | None = None
    """The `next_cursor` of the call before, with the same filter."""
    note: Note | None = None


class BulkItem(JsonView, frozen=True):
    id: str
    ok: bool
    version: int | None
    """After the change; `None` if there is none."""
    segment_id: str | None
    code: str | None
    """Why it was not changed."""
    message: str | None


class BulkOutcome(JsonView, frozen=True):
    action: BulkAction
    changed: int
    failed: int
    items: list[BulkItem]
    complete: bool
    """Whether nothing that matches is left; if not, call again with `next_cursor`."""
    next_cursor: str | None
    segment_id: str | None
    """Of the record of it all; `None` if nothing was found."""


class BulkChanges(Service):
    """Lets a service of definitions change many of them at once."""

    async def bulk(self, request: BulkRequest | Mapping[str, Any]) -> BulkOutcome:
        """Enable, disable or delete definitions; each item that cannot be changed gets its own error."""
        asked = check_request(request, BulkRequest)
        if problems := tuple(broken_rules(asked, (_has_one_choice, self._known_filter))):
            raise refusal("field", problems)
        ids, more = (asked.ids, None) if asked.ids is not None else await self._find_ids(asked)
        ids, collection, on_record = tuple(dict.fromkeys(ids)), self._collection(), None
        if ids:
            # On record before the first change, so that a call that dies half-way has said what it was about.
            on_record = await record_operation(
                self, collection, asked.action, ids, note=asked.note, chosen_by=asked.filter
            )
        items: list[BulkItem] = []
        for start in range(0, len(ids), AT_ONCE):
            some = ids[start : start + AT_ONCE]
            items += await asyncio.gather(*(self._change_one(asked, id) for id in some))
        changed = sum(item.ok for item in items)
        return BulkOutcome(asked.action, changed, len(items) - changed, items, more is None, more, on_record)

    def _collection(self) -> str:
        return type(self).__name__.lower()

    def _known_filter(self, asked: BulkRequest) -> tuple[tuple[str, str], ...]:
        known = signature(self.list).parameters.keys() - PAGING  # type: ignore[attr-defined]
        message = f"no such filter; known: {', '.join(sorted(known))}"
        return tuple((f"filter.{name}", message) for name in (asked.filter or {}) if name not in known)

    async def _find_ids(self, asked: BulkRequest) -> tuple[tuple[str, ...], str | None]:
        """Return the ids that match the filter, in the order of the list, and the cursor of the next call."""
        found: list[str] = []
        cursor = asked.cursor
        while len(found) < asked.limit:
            limit = min(asked.limit - len(found), LIMIT_MAX)
            try:
                page = await self.list(**(asked.filter or {}), limit=limit, cursor=cursor)  # type: ignore[attr-defined]
            except Invalid as error:
                raise _in_body(error) from None
            found += [getattr(item, f"{self._collection()[:-1]}_id") for item in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        return tuple(found), cursor

    async def _change_one(self, asked: BulkRequest, id: str) -> BulkItem:
        alone: Any = copy(self)  # each has its own `last`
        # What the whole call was asked with is not what a single change must agree in.
        alone.caller = replace(self.caller, request="", note=asked.note or self.caller.note)
        try:
            view = await getattr(alone, asked.action)(id)
        except BetimesError as error:
            return BulkItem(id, False, None, None, getattr(error, "reason", None) or error.code, str(error))
        segment_id = alone.last.segment_id if alone.last else None
        return BulkItem(id, True, view.version if view else None, segment_id, None, None)


def _has_one_choice(asked: BulkRequest) -> tuple[tuple[str, str], ...]:
    if (asked.ids is None) == (asked.filter is None):
        return (("ids", "give either ids or a filter; an empty filter selects all"),)
    return ()


def _in_body(error: Invalid) -> Invalid:
    """Return the refusal of a list with its paths as they are in the body of a bulk change."""
    places = tuple(
        ("cursor" if path == "query.cursor" else path.replace("query.", "filter.", 1), message)
        for path, message in error.problems
    )
    return Invalid(str(error), places)
