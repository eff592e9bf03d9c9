"""Routes of definitions: schedules, sensors and intents are made, read, changed and removed in the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional, Protocol

import msgspec

from betimes.domain.service import Service
from betimes.http.routes import Answer, Listed, RequestContext, Route, answer_of


class Defines(Protocol):
    """What a domain's service does with its definitions."""

    @property
    def created(self) -> bool: ...
    async def create(self, request: Any, /, *, key: str | None = ...) -> Any: ...
    async def get(self, id: str, /) -> Any: ...
    async def list(self, **filters: Any) -> Any: ...
    async def put(self, id: str, request: Any, /, *, if_match: int | None = ..., only_create: bool = ...) -> Any: ...
    async def patch(
        self, id: str, patch: Mapping[str, Any], /, *, if_match: int | None = ..., key: str | None = ...
    ) -> Any: ...
    async def delete(self, id: str, /, *, if_match: int | None = ...) -> None: ...
    async def enable(self, id: str, /, *, key: str | None = ...) -> Any: ...
    async def disable(self, id: str, /, *, key: str | None = ...) -> Any: ...


def merge_patch(name: str, kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Return the type of a JSON Merge Patch of a struct, as it is described."""
    fields = [(field.name, Optional[field.type], None) for field in msgspec.structs.fields(kind)]  # noqa: UP045
    said = {"__doc__": "What changes: a field left out stays, `null` empties it or restores its default."}
    return msgspec.defstruct(name, fields, namespace=said, frozen=True, forbid_unknown_fields=True)


class Definitions(msgspec.Struct, frozen=True, kw_only=True):
    """One collection of definitions, and the types it speaks in."""

    noun: str
    """Such as `schedule`: `/v1/schedules/{schedule_id}`."""
    domain: str
    tag: str
    service: Callable[[RequestContext], Any]
    request: Any
    """The type of a definition as it is sent."""
    body: Any
    """The same, or what the service is given to check itself."""
    view: Any
    page: Any
    written: Any
    filters: type[Listed]
    read_only: frozenset[str]
    judges_body: bool = False
    """Whether the service has rules for what is sound of a request whose shape is wrong."""
    example: Any = None

    @property
    def path(self) -> str:
        return f"/v1/{self.noun}s"

    def id_of(self, request: RequestContext) -> str:
        return request.path[f"{self.noun}_id"]

    def _defines(self, request: RequestContext) -> Defines:
        defines: Defines = self.service(request)
        return defines

    def _answer(self, request: RequestContext, view: Any) -> Answer:
        service: Service = self.service(request)
        created = f"{self.path}/{getattr(view, f'{self.noun}_id')}" if self._defines(request).created else None
        return answer_of(service, view, location=created, version=view.version)

    # -- handlers

    async def create(self, request: RequestContext) -> Answer:
        return self._answer(request, await self._defines(request).create(request.body, key=request.idempotency_key))

    async def list(self, request: RequestContext) -> Any:
        return await self._defines(request).list(**msgspec.structs.asdict(request.query))

    async def get(self, request: RequestContext) -> Answer:
        view = await self._defines(request).get(self.id_of(request))
        return Answer(view, headers={"ETag": f'"{view.version}"'})

    async def put(self, request: RequestContext) -> Answer:
        view = await self._defines(request).put(
            self.id_of(request), request.body, if_match=request.expected_version, only_create=request.only_create
        )
        return self._answer(request, view)

    async def patch(self, request: RequestContext) -> Answer:
        view = await self._defines(request).patch(
            self.id_of(request), request.body, if_match=request.expected_version, key=request.idempotency_key
        )
        return self._answer(request, view)

    async def delete(self, request: RequestContext) -> None:
        await self._defines(request).delete(self.id_of(request), if_match=request.if_match)

    async def enable(self, request: RequestContext) -> Answer:
        return self._answer(
            request, await self._defines(request).enable(self.id_of(request), key=request.idempotency_key)
        )

    async def disable(self, request: RequestContext) -> Answer:
        return self._answer(
            request, await self._defines(request).disable(self.id_of(request), key=request.idempotency_key)
        )

    # -- routes

    def routes(self) -> tuple[Route, ...]:
        noun, one, tag = self.noun, f"{self.path}/{{{self.noun}_id}}", self.tag
        article = "an" if noun[0] in "aeiou" else "a"
        read, write = f"{self.domain}:read", f"{self.domain}:write"
        described = None if self.body is self.request else self.request
        changed = ((412, "VERSION_MISMATCH"),)
        return (
            Route(
                method="POST",
                path=self.path,
                scope=write,
                answer=self.create,
                tag=tag,
                summary=f"Make {article} {noun}",
                description="Without an id it gets one.",
                body=self.body,
                described_body=described,
                judges_body=self.judges_body,
                read_only=self.read_only,
                reply=self.written,
                status=201,
                codes=((409, "ALREADY_EXISTS"),),
                example=self.example,
            ),
            Route(
                method="GET",
                path=self.path,
                scope=read,
                answer=self.list,
                tag=tag,
                summary=f"The {noun}s, newest first",
                query=self.filters,
                reply=self.page,
            ),
            Route(
                method="GET",
                path=one,
                scope=read,
                answer=self.get,
                tag=tag,
                summary=f"{article.capitalize()} {noun} and its state",
                reply=self.view,
            ),
            Route(
                method="PUT",
                path=one,
                scope=write,
                answer=self.put,
                tag=tag,
                summary=f"Make or replace {article} {noun}",
                description="`If-Match`, or `version` in the body, makes it conditional; `If-None-Match: *` only "
                "makes.",
                body=self.body,
                described_body=described,
                judges_body=self.judges_body,
                read_only=self.read_only,
                reply=self.written,
                status=201,
                codes=changed,
            ),
            Route(
                method="PATCH",
                path=one,
                scope=write,
                answer=self.patch,
                tag=tag,
                summary=f"Change {article} {noun}",
                description="JSON Merge Patch: `null` empties a field or restores its default.",
                body=dict[str, Any],
                described_body=merge_patch(f"{noun.capitalize()}Patch", self.request),
                reply=self.written,
                codes=changed,
            ),
            Route(
                method="DELETE",
                path=one,
                scope=write,
                answer=self.delete,
                tag=tag,
                summary=f"Remove {article} {noun}",
                description="Its history stays on the ledger.",
                codes=changed,
            ),
            *(
                Route(
                    method="POST",
                    path=f"{one}/{verb}",
                    scope=write,
                    answer=answer,
                    tag=tag,
                    summary=f"{verb.capitalize()} {article} {noun}",
                    reply=self.written,
                )
                for verb, answer in (("enable", self.enable), ("disable", self.disable))
            ),
        )
