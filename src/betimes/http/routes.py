"""Routes as data: method, path, scope, types, and the function that answers.

Everything the server does with a request (decode, check, authorise, describe in OpenAPI) is read from here, so a route
cannot forget any of it. A route without a scope cannot be made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Protocol, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.types import Receive, Scope

from betimes.core.bounds import INTEGER_MAX
from betimes.core.errors import Invalid
from betimes.core.instants import Instant
from betimes.core.policies import Body
from betimes.domain.service import Caller, Service
from betimes.engine.engine import Engine
from betimes.engine.tick_result import TickResult
from betimes.http.counters import CommitCounters
from betimes.http.problems import HttpProblem
from betimes.tenancy import Tenancy

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from betimes.http.process import Process

    # The types of a handler that says nothing of them.
    Sent = TypeVar("Sent", default=Any)
    Told = TypeVar("Told", default=Any)
else:
    from typing import TypeVar

    Sent = TypeVar("Sent")
    Told = TypeVar("Told")

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
PUBLIC = "public"
ANY_KEY = "any key"
SEGMENT_HEADER = "Betimes-Segment"
"""Names the segment that a write has left."""
BODY_BYTES_MAX = 4 * 1024 * 1024
DEPLOYMENT_TENANT = "*"
"""The tenant whose keys are for routes about every tenant at once."""


class ServedApplication(Protocol):
    """The application behind the routes; `betimes.app.Betimes` is one."""

    @property
    def engine(self) -> Engine: ...

    @property
    def tally(self) -> CommitCounters: ...

    def for_caller(self, caller: Caller) -> Tenancy: ...

    async def tick(
        self, *, limit: int = ..., max_s: float = ..., tenant: str | None = ..., kinds: tuple[str, ...] | None = ...
    ) -> TickResult: ...

    async def advance_pass(self, *, to: Instant, max_s: float = ...) -> TickResult: ...

    @property
    def is_virtual(self) -> bool: ...

    @property
    def dry_run_report(self) -> type:
        """Return the type that a dry run reports."""

    def dry_run(
        self, caller: Caller | None = ..., *, at: Instant | None = ..., policy: Body | None = ...
    ) -> TrialApplication: ...


class TrialApplication(ServedApplication, Protocol):
    """The application in a dry run: it decides and commits nothing."""

    async def report(self) -> Any:
        """Return what would have been written."""


class IncomingRequest(Request):
    """Starlette's request, with what every request needs found without a search; nothing of it is checked."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        super().__init__(scope, receive)
        self.first_headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])
        }
        """By name in lower case; of several of one name, the first, which is also what `headers` finds."""
        self.tenant = ""
        """The authenticated caller, once known."""

    async def read_body(self) -> bytes:
        """Read the body, up to its limit."""
        parts, size, is_complete = [], 0, False
        while not is_complete:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise HttpProblem(400, "MALFORMED_JSON", "The connection closed before the whole body had arrived.")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > BODY_BYTES_MAX:
                raise HttpProblem(413, "BODY_TOO_LARGE", f"The body has more than {BODY_BYTES_MAX:,} bytes.")
            is_complete = not message.get("more_body", False)
        return b"".join(parts)


@dataclass(eq=False)
class RequestContext(Generic[Sent]):
    """One request: who asks, and everything they sent, decoded and checked."""

    application: ServedApplication
    caller: Caller
    scopes: tuple[str, ...]
    process: Process
    request: IncomingRequest
    _: KW_ONLY
    query: Any = None
    body: Sent = None  # type: ignore[assignment]
    sent: Any = None
    """The body as JSON, before it was checked."""
    idempotency_key: str | None = None
    """From the header or the body."""
    raw: bytes = b""
    key_id: str = ""
    segment_id: str = ""
    """The segment that a write has left, for the answer's header."""
    proxy_key_id: str = ""
    """The key that a trusted proxy stands for, where a route asks for one."""

    @property
    def engine(self) -> Engine:
        return self.application.engine

    @property
    def path(self) -> Mapping[str, str]:
        """Return the parameters in the path."""
        return self.request.path_params

    @property
    def headers(self) -> Mapping[str, str]:
        return self.request.headers

    @cached_property
    def services(self) -> Tenancy:
        return self.application.for_caller(self.caller)

    @property
    def wants_trace(self) -> bool:
        return self.query.trace is not False

    @property
    def if_match(self) -> int | None:
        """The version a change is made on condition of, from `If-Match: "3"`; the door refused what names none."""
        tag = self.headers.get("if-match")
        return None if tag is None else version_of(tag)

    @property
    def expected_version(self) -> int | None:
        """The same, from the header or from `version` in the body."""
        given: int | None = self.sent.get("version") if isinstance(self.sent, dict) else None
        if given is None:
            return self.if_match
        if self.if_match not in (None, given):
            message = "differs from the header If-Match"
            raise Invalid(f"1 field is wrong: version: {message}", (("version", message),))
        return given

    @property
    def only_create(self) -> bool:
        return self.headers.get("if-none-match", "").strip() == "*"


def version_of(tag: str) -> int | None:
    """Return the version that a tag names; `None` for `*`, and for what is none."""
    text = _strip_tag(tag)
    return int(text) if is_version(tag) and text != "*" else None


def is_version(tag: str) -> bool:
    """Return whether a tag is `*`, or a version in quotes."""
    text = _strip_tag(tag)
    return text == "*" or (text.isdecimal() and text.isascii() and int(text[:20]) <= INTEGER_MAX)


def _strip_tag(tag: str) -> str:
    return tag.strip().removeprefix("W/").strip('"')


class Answer(msgspec.Struct, Generic[Told], frozen=True):
    """A body with its status and headers; a handler may also return the body alone."""

    body: Told | None = None
    status: int = 200
    headers: dict[str, str] = {}
    media_type: str = "application/json"


def name_segment(request: RequestContext, service: Service) -> None:
    """Name the segment of the service's last command in the answer's header."""
    if service.last is not None and service.last.version:  # nothing may have been there to change
        request.segment_id = service.last.segment_id


def answer_of(service: Service, body: Told, *, location: str | None = None, version: int | None = None) -> Answer[Told]:
    """Return the answer of a write: whether it is a replay, its location if it was created, and its version.

    A replay has the status that was answered first.
    """
    headers = {} if version is None else {"ETag": f'"{version}"'}
    if service.last is not None and service.last.version:
        headers[SEGMENT_HEADER] = service.last.segment_id
    if service.is_replay:
        headers["Idempotency-Replayed"] = "true"
    if location is not None:
        return Answer(body, 201, {**headers, "Location": location})
    return Answer(body, 204 if body is None else 200, headers)


class Empty(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class Traced(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    trace: bool | None = None
    """Whether the answer includes the rules that were checked; by default yes, in a batch no."""


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50
    """1 to 200."""
    cursor: str | None = None
    """The `next_cursor` of the page before; it belongs to the same filters."""


class ClaimLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 10


Handler: TypeAlias = Callable[[RequestContext[Any]], Awaitable[Any]]
ManyHandler: TypeAlias = Callable[[RequestContext, list[RequestContext]], Awaitable[Sequence[Any]]]
"""Answers the items of a batch: given the request as a whole, whose services serve them, and each item's own."""


class _RouteHead(msgspec.Struct, frozen=True):
    path: str
    """With `{names}` in it."""
    answer: Handler
    summary: str


class Route(_RouteHead, frozen=True, kw_only=True):
    """One method of a path. Files of routes say what theirs share once, with `functools.partial`."""

    method: Method
    scope: str
    """Of the key; `PUBLIC` needs none."""
    tag: str
    description: str = ""
    query: type[msgspec.Struct] = Empty
    body: Any = None
    """The type of the request's body; `None` when it takes none."""
    described_body: Any = None
    """The type of the body as it is described, where the handler checks it itself."""
    usual_body: Any = None
    """The type that most bodies have, where the handler takes others too: a sound one is decoded straight into it."""
    judges_body: bool = False
    """The handler is given the body as far as it is sound (`Examined`), to say what its rules find wrong besides."""
    body_optional: bool = False
    conditional: bool = False
    """Whether a POST heeds `If-Match`."""
    toml_field: str = ""
    """The field of the body that may be sent alone as `application/toml`."""
    raw_body: bool = False
    """The handler reads the body itself."""
    reply: Any = None
    """The type of the answer; `None` is 204."""
    status: int = 200
    also: tuple[int, ...] = ()
    """Further statuses with the same answer."""
    media_type: str = "application/json"
    """Of the answer."""
    events: Mapping[str, Any] = {}
    """The types of what a stream of server-sent events carries, by the name of the event."""
    batch_body: tuple[str, Any] | None = None
    """A media type whose body holds several, and the type of that body; the answer is a batch's."""
    batch: bool = False
    """Takes `{"items": […]}` too."""
    batch_item: Any = None
    """The type of an item, where it is not the type of the body."""
    batch_reply: Any = None
    """The type of the answer to an item, where it is not the type of the answer."""
    answer_many: ManyHandler | None = None
    """Answers the items of a batch together, with an error where an answer would be; by default each alone."""
    dry_run: bool = False
    """Whether it changes nothing though its scope would let it."""
    key_field: str = ""
    """The field of the body that is the idempotency key, so that the header may stand for it."""
    keeps_answer: str = ""
    """Where no single command stands behind it: the collection under whose keys its answer is kept."""
    read_only: frozenset[str] = frozenset()
    """Fields of an answer that may be sent back and are ignored."""
    codes: tuple[tuple[int, str], ...] = ()
    """Further problems, as (status, code)."""
    deployment: bool = False
    """Whether a key of the tenant `*` may use it."""
    own_proof: bool = False
    """Whether a request without a key is let in, with no tenant and no scopes, to prove itself to the handler."""
    signs_in: bool = False
    """Whether a trusted proxy's name may stand for a key here."""
    time_limit_s: float | None = 30.0
    example: Any = None

    @property
    def takes_body(self) -> bool:
        return self.body is not None or self.raw_body

    @property
    def takes_key(self) -> bool:
        """Return whether `Idempotency-Key` is honoured."""
        return self.method in ("POST", "PATCH") and self.scope != PUBLIC

    @property
    def is_recorded(self) -> bool:
        """Return whether it may change something; scopes to read and dry runs do not."""
        return self.method != "GET" and not self.scope.endswith(":read") and not self.dry_run

    @property
    def can_be_tried(self) -> bool:
        """Return whether `Betimes-Dry-Run` is honoured; a pass over what is due cannot be tried."""
        return self.is_recorded and (self.scope == "admin" or not self.deployment)

    @property
    def is_conditional(self) -> bool:
        """Return whether `If-Match`, or `version` in the body, makes it conditional."""
        may_be = self.conditional or self.method in ("PUT", "PATCH", "DELETE")
        return may_be and (412, "VERSION_MISMATCH") in self.codes

    @property
    def body_shape(self) -> Any:
        """The type of the body as it is described."""
        return self.body if self.described_body is None else self.described_body

    def __post_init__(self) -> None:
        if not self.scope:
            raise Invalid(f"{self.method} {self.path} names no scope; every route needs one, or PUBLIC")


def demand_deployment(request: RequestContext, scope: str) -> None:
    """Refuse callers other than the deployment; without keys everybody is the deployment."""
    if request.key_id and request.caller.tenant != DEPLOYMENT_TENANT:
        raise HttpProblem(403, "MISSING_SCOPE", f"This needs the scope {scope} of a key of the tenant *.")
