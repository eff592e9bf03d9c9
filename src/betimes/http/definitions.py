"""Routes of definitions: schedules, sensors and intents are made, read, changed and removed in the same way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Optional, Protocol

import msgspec

from betimes.domain.bulk_changes import PAGING, BulkOutcome, BulkRequest
from betimes.domain.paging import Page
from betimes.domain.service import Service
from betimes.http.routes import Answer, Handler, Listed, RequestContext, Route, answer_of, name_segment
from betimes.http.service_calls import ServiceRoutes, filters_of

_CHANGED = ((412, "VERSION_MISMATCH"),)


class DefinitionService(Protocol):
    """A domain's service, as far as these routes use it."""

    @property
    def has_created(self) -> bool: ...
    async def create(self, request: Any, /, *, key: str | None = ...) -> Any: ...
    async def get(self, id: str, /) -> Any: ...
    async def list(self, **filters: Any) -> Any: ...
    async def put(self, id: str, request: Any, /, *, if_match: int | None = ..., only_create: bool = ...) -> Any: ...
    async def patch(
        self, id: str, patch: Mapping[str, Any], /, *, if_match: int | None = ..., key: str | None = ...
    ) -> Any: ...
    async def delete(self, id: str, /, *, if_match: int | None = ...) -> None: ...
    async def enable(self, id: str, /, *, if_match: int | None = ..., key: str | None = ...) -> Any: ...
    async def disable(self, id: str, /, *, if_match: int | None = ..., key: str | None = ...) -> Any: ...
    async def bulk(self, request: Any, /) -> Any: ...


def merge_patch(name: str, kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Return the type of a JSON Merge Patch of a struct, as it is described."""
    fields = [(field.name, Optional[field.type], None) for field in msgspec.structs.fields(kind)]  # noqa: UP045
    said = {"__doc__": "The changes: an omitted field stays, `null` empties it or restores its default."}
    return msgspec.defstruct(name, fields, namespace=said, frozen=True, forbid_unknown_fields=True)


def bulk_request(name: str, filters: type[Listed]) -> type[msgspec.Struct]:
    """Return the type of a bulk change of a collection, as it is described: its filter holds the list's parameters."""
    parameters = [
        (field.name, field.type, None) for field in msgspec.structs.fields(filters) if field.name not in PAGING
    ]
    chosen = msgspec.defstruct(f"{name}Filter", parameters, frozen=True, forbid_unknown_fields=True)
    fields = [
        (field.name, chosen | None if field.name == "filter" else field.type, field.default)
        for field in msgspec.structs.fields(BulkRequest)
    ]
    said = {"__doc__": BulkRequest.__doc__}
    return msgspec.defstruct(name, fields, namespace=said, frozen=True, forbid_unknown_fields=True, kw_only=True)


class DefinitionRoutes(msgspec.Struct, frozen=True):
    """One collection of definitions, and the types it speaks in."""

    noun: str
    """Such as `schedule`: `/v1/schedules/{schedule_id}`."""
    calls: ServiceRoutes[Any]
    types: type[Any]
    """The class of the service: its `request_type`, `view_type`, `written_type`, `read_only` and the parameters of its
    `list` are what these routes speak in."""
    body: Any = None
    """What the service is given to check itself, in place of what is sent."""
    example: Any = None

    @property
    def path(self) -> str:
        return f"/v1/{self.noun}s"

    @property
    def one_path(self) -> str:
        return f"{self.path}/{{{self.noun}_id}}"

    def id_of(self, request: RequestContext) -> str:
        return request.path[f"{self.noun}_id"]

    def _service(self, request: RequestContext) -> DefinitionService:
        service: DefinitionService = self.calls.service(request)
        return service

    def _answer(self, request: RequestContext, view: Any) -> Answer:
        service: Service = self.calls.service(request)
        created = f"{self.path}/{getattr(view, f'{self.noun}_id')}" if self._service(request).has_created else None
        return answer_of(service, view, location=created, version=view.version)

    # -- handlers

    async def create(self, request: RequestContext) -> Answer:
        return self._answer(request, await self._service(request).create(request.body, key=request.idempotency_key))

    async def list(self, request: RequestContext) -> Any:
        return await self._service(request).list(**msgspec.structs.asdict(request.query))

    async def get(self, request: RequestContext) -> Answer:
        view = await self._service(request).get(self.id_of(request))
        return Answer(view, headers={"ETag": f'"{view.version}"'})

    async def put(self, request: RequestContext) -> Answer:
        view = await self._service(request).put(
            self.id_of(request), request.body, if_match=request.expected_version, only_create=request.only_create
        )
        return self._answer(request, view)

    async def patch(self, request: RequestContext) -> Answer:
        view = await self._service(request).patch(
            self.id_of(request), request.body, if_match=request.expected_version, key=request.idempotency_key
        )
        return self._answer(request, view)

    async def delete(self, request: RequestContext) -> None:
        await self._service(request).delete(self.id_of(request), if_match=request.if_match)
        name_segment(request, self.calls.service(request))

    async def enable(self, request: RequestContext) -> Answer:
        return await self._switch(request, self._service(request).enable)

    async def disable(self, request: RequestContext) -> Answer:
        return await self._switch(request, self._service(request).disable)

    async def _switch(self, request: RequestContext, change: Callable[..., Awaitable[Any]]) -> Answer:
        view = await change(self.id_of(request), if_match=request.if_match, key=request.idempotency_key)
        return self._answer(request, view)

    async def bulk(self, request: RequestContext) -> Any:
        outcome = await self._service(request).bulk(request.body)
        name_segment(request, self.calls.service(request))
        return outcome

    # -- routes

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of the collection and of one definition."""
        page = Page[self.types.view_type]  # type: ignore[name-defined]
        return (
            self._create_route(),
            self.calls.get(
                self.path, self.list, f"The {self.noun}s, newest first", query=filters_of(self.types.list), reply=page
            ),
            self.calls.get(
                self.one_path, self.get, self._phrase("{A} {noun} and its state"), reply=self.types.view_type
            ),
            self._put_route(),
            self._patch_route(),
            self.calls.delete(
                self.one_path,
                self.delete,
                self._phrase("Delete {a} {noun}"),
                description="Its history stays on the ledger.",
                codes=_CHANGED,
            ),
            self._switch_route("enable", self.enable),
            self._switch_route("disable", self.disable),
            self._bulk_route(),
        )

    def _create_route(self) -> Route:
        return self.calls.post(
            self.path,
            self.create,
            self._phrase("Create {a} {noun}"),
            description="Without an id it gets one.",
            status=201,
            codes=((409, "ALREADY_EXISTS"),),
            example=self.example,
            **self._whole_body(),
        )

    def _put_route(self) -> Route:
        return self.calls.put(
            self.one_path,
            self.put,
            self._phrase("Create or replace {a} {noun}"),
            description="`If-Match`, or `version` in the body, makes it conditional; `If-None-Match: *` only creates.",
            status=201,
            codes=_CHANGED,
            **self._whole_body(),
        )

    def _patch_route(self) -> Route:
        return self.calls.patch(
            self.one_path,
            self.patch,
            self._phrase("Change {a} {noun}"),
            description="JSON Merge Patch: `null` empties a field or restores its default.",
            body=dict[str, Any],
            described_body=merge_patch(f"{self.noun.capitalize()}Patch", self.types.request_type),
            reply=self.types.written_type,
            codes=_CHANGED,
        )

    def _switch_route(self, verb: str, handler: Handler) -> Route:
        return self.calls.post(
            f"{self.one_path}/{verb}",
            handler,
            self._phrase(f"{verb.capitalize()} {{a}} {{noun}}"),
            reply=self.types.written_type,
            conditional=True,
            codes=_CHANGED,
        )

    def _bulk_route(self) -> Route:
        return self.calls.post(
            f"{self.path}/bulk",
            self.bulk,
            f"Enable, disable or delete many {self.noun}s",
            description="By id, or by a filter with the parameters of the list. Each is a change of its own with its "
            "own result; `complete` is false if anything is left.",
            body=BulkRequest,
            described_body=bulk_request(f"{self.noun.capitalize()}Bulk", filters_of(self.types.list)),
            reply=BulkOutcome,
            keeps_answer=f"{self.noun}_bulk",
            example={"action": "disable", "filter": {}, "note": "while the database moves"},
        )

    def _whole_body(self) -> dict[str, Any]:
        """Return the fields of a route that takes a whole definition and answers with it."""
        return {
            "body": self.body or self.types.request_type,
            "described_body": self.types.request_type if self.body else None,
            "judges_body": True,
            "read_only": self.types.read_only,
            "reply": self.types.written_type,
        }

    def _phrase(self, text: str) -> str:
        """Return a summary with the noun and its article."""
        article = "an" if self.noun[0] in "aeiou" else "a"
        return text.format(a=article, A=article.capitalize(), noun=self.noun)
