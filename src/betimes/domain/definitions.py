"""The service of definitions, shared by schedules and sensors: versions, patches, ids, and clear refusals."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast
from uuid import uuid4

import msgspec

from betimes.core.canonical import encode, fingerprint
from betimes.core.checks import Examined, Problem, Rule, broken_rules, refusal
from betimes.core.checks import problems as problems_of
from betimes.core.deciders import Command, Event
from betimes.core.errors import Invalid, MalformedRow, MissingScope, NotFound, Refused, UnknownKind, VersionMismatch
from betimes.core.merge_patch import apply_merge_patch
from betimes.core.names import Id
from betimes.core.scopes import allows
from betimes.core.segments import Recorded, Segment
from betimes.core.streams import StreamId
from betimes.domain.bulk_changes import BulkChanges
from betimes.domain.definition_rules import id_problems
from betimes.domain.derivation import derive
from betimes.domain.outside_calls import call_warnings, calls_of_definition, handler_problems, url_problems
from betimes.domain.paging import Listing, Page, list_streams
from betimes.domain.run_briefs import RunBrief, find_failing_calls, run_brief
from betimes.domain.segment_lists import events_in
from betimes.domain.service import demanded_stream, examine_request
from betimes.domain.target_names import scope_to_save, unknown_names, unserved_names
from betimes.domain.targets import CommandTarget, Target
from betimes.domain.warnings import Remark
from betimes.engine.store import PAGE_MAX, StreamQuery, StreamRow
from betimes.runs.model import RunState, run_stream


class Versioned(Protocol):
    """A definition as people see it."""

    @property
    def version(self) -> int: ...


Request = TypeVar("Request")
Asked = TypeVar("Asked", bound=msgspec.Struct)
Shown = TypeVar("Shown", bound=Versioned)
Written = TypeVar("Written", bound=Versioned)
Item = TypeVar("Item")
PATCH_TRIES = 5


class Definitions(BulkChanges, Generic[Asked, Shown, Written]):
    """A domain whose streams are made, changed and removed by people.

    A replay is answered with the definition as it was recorded, whatever became of it since.
    """

    kind: ClassVar[str]
    read_only: ClassVar[frozenset[str]]
    request_type: ClassVar[type[Any]]
    id_prefix: ClassVar[str]
    """Of the ids that are generated."""
    view_type: ClassVar[type[Any]]
    written_type: ClassVar[type[Any]]
    """The answer to a write: the same, with warnings and the segment that wrote it."""
    disable_command: ClassVar[type[Any]]
    rules: ClassVar[tuple[Rule[Any], ...]] = ()
    """Their problems are reported together with a wrong shape."""
    has_created = False
    """Whether the last write created a definition."""

    @abstractmethod
    async def _define(self, id: str, asked: Asked, if_version: int | None, key: str | None, request: str) -> Written:
        """Put a definition in place of that version; 0 is none, `None` is any."""

    async def get(self, id: str) -> Shown:
        return self._view(id, await self.require_state(self.stream(self.kind, id)))

    def _view(self, id: str, state: Any) -> Shown:
        shown: Shown = self._derive(self.view_type, id, state)
        return shown

    def _derive(self, kind: type[Any], id: str, state: Any, **given: Any) -> Any:
        given[f"{self.kind}_id"] = id
        return derive(kind, *self._shown_fields(state), **given)

    def _shown_fields(self, state: Any) -> tuple[Any, ...]:
        """Return what answers are filled from: the first that has a field gives it."""
        return state.definition, state

    async def create(self, request: Asked | Mapping[str, Any] | Examined[Asked], *, key: str | None = None) -> Written:
        request = await self.request(request)
        id = getattr(request, f"{self.kind}_id") or generated_id(self.id_prefix, key)
        view = await self._define(id, request, 0, key, "")
        self.has_created = True
        return view

    async def drop_declared(self, id: str) -> None:
        """Pause a definition that its application no longer declares."""
        await self.change(self.stream(self.kind, id), self.disable_command(reason="NOT_DECLARED"))

    async def _change_definition(
        self, stream: StreamId, command: Command, key: str | None, request: str = ""
    ) -> Written:
        return await self._view_after(await self.change(stream, command, key=key, request=request))

    async def _view_after(self, recorded: Recorded) -> Written:
        """Return the definition as a change left it, with what is worth a warning."""
        state = await self.state_after(recorded)
        if state is None:
            raise NotFound(f"there is no {self.kind} {recorded.stream.id!r}")
        calls = call_warnings(self.deployment, calls_of_definition(state.definition))
        warnings = [*self._warnings(state), *unserved_names(state.definition, self.engine.executors), *calls]
        written: Written = self._derive(
            self.written_type, recorded.stream.id, state, warnings=warnings, segment_id=recorded.segment_id
        )
        return written

    def _warnings(self, state: Any) -> list[Remark]:
        """Return what is worth a warning in this domain alone."""
        return []

    async def request(self, body: Asked | Mapping[str, Any] | Examined[Asked], id: str = "") -> Asked:
        """Return the request, from a mapping without its read-only fields; raise `Invalid` with every wrong field.

        With the id of what is replaced, targets that stay as they are go unquestioned.
        """
        sent = body
        if isinstance(body, Mapping):
            sent = {name: value for name, value in body.items() if name not in self.read_only}
        found: Examined[Any] = examine_request(sent, self.request_type)
        if found.found.total:
            is_named = id and not problems_of("", id, Id)  # one that nothing can have is among the problems already
            before = await self.state(self.stream(self.kind, id)) if is_named else None
            known = await self._rules_of_targets(before)
            found.judge((self._id_problems, *self.rules, *known))
        return cast(Asked, found.whole())

    def _id_problems(self, request: Any) -> tuple[tuple[str, str], ...]:
        name = f"{self.kind}_id"
        return id_problems(name, getattr(request, name) or "")

    async def put(
        self,
        id: str,
        request: Asked | Mapping[str, Any] | Examined[Asked],
        *,
        if_match: int | None = None,
        only_create: bool = False,
    ) -> Written:
        """Create or replace; `only_create` refuses to replace."""
        request = await self.request(request, id)
        name = f"{self.kind}_id"
        if getattr(request, name) not in (None, id):
            raise Invalid(f"{name} differs from the one in the path", ((name, "differs from the one in the path"),))
        # Expecting none where there is none, so that it is certain whose call made it.
        is_new = if_match is None and await self.state(self.stream(self.kind, id)) is None
        try:
            view = await self._define(id, request, 0 if is_new or only_create else if_match, None, "")
        except Refused as refused:
            if refused.reason != "ALREADY_EXISTS":
                raise
            if only_create or if_match == 0:
                raise VersionMismatch(str(refused)) from None
            return await self.put(id, request)  # somebody else made it meanwhile
        self.has_created = is_new or if_match == 0
        return view

    async def patch(
        self, id: str, patch: Mapping[str, Any], *, if_match: int | None = None, key: str | None = None
    ) -> Written:
        """Change some fields; without a version it is laid over whatever is there."""
        fields = tuple(name for name in self.request_type.__struct_fields__ if name != f"{self.kind}_id")
        laid = {name: value for name, value in patch.items() if name not in self.read_only}
        request = (self.caller.request or fingerprint((self.stream(self.kind, id), patch))) if key else ""
        # A repeat is answered from the record before the patch is laid over what is there by now, which would be
        # another request.
        if key and (again := await self.find_recorded(key, f"{self.kind}s", request)):
            return await self._view_after(again)
        for _ in range(PATCH_TRIES):
            view = await self.get(id)
            if if_match not in (None, view.version):
                raise VersionMismatch(f"the {self.kind} {id!r} is at version {view.version}; read it again")
            whole = await self.request(apply_patch(view, laid, fields), id)
            try:
                return await self._define(id, whole, view.version, key, request)
            except VersionMismatch:
                if if_match is not None:
                    raise
        raise VersionMismatch(f"the {self.kind} {id!r} was changed by others at every attempt; try again")

    async def demand_scopes(self, stream: StreamId, definition: Any) -> None:
        """Refuse targets that the caller could not bring about; those that stay as they are were saved before.

        Another evaluator would choose otherwise among the same targets, and another payload would reach their runs, so
        both need the scopes of the targets too.
        """
        if not self._missing_scopes(targets_of(definition)):
            return
        before = await self.state(stream)
        if before is None or _causes(before.definition) != _causes(definition):
            self._demand_scopes_of(definition)

    def _demand_scopes_of(self, definition: Any) -> None:
        """Raise `MissingScope` unless the caller could bring about everything that a definition may cause."""
        if missing := self._missing_scopes(targets_of(definition)):
            raise MissingScope(f"The key lacks the scope {missing[0]}, which this target needs.")

    def _missing_scopes(self, targets: tuple[Target, ...]) -> list[str]:
        scopes = self.caller.scopes
        wanted = [scope for target in targets if (scope := scope_to_save(target, self.engine.kinds))]
        return [scope for scope in wanted if scopes is not None and not allows(scopes, scope)]

    async def demand_sound(self, stream: StreamId, definition: Any, found: tuple[Problem, ...]) -> None:
        """Refuse what was found wrong, names that the policy in force does not know, and calls that are never made."""
        # What was saved before is loaded only if something is wrong; most definitions are sound by themselves.
        known = list(broken_rules(definition, await self._rules_of_targets(None)))
        if known:
            known = list(broken_rules(definition, await self._rules_of_targets(await self.state(stream))))
        calls = calls_of_definition(definition)
        refused = await handler_problems(self.engine, self.deployment, stream.tenant, calls)
        raise_problems((*found, *known, *refused))

    async def _rules_of_targets(self, before: Any) -> tuple[Rule[Any], ...]:
        """Return what holds for targets and evaluators, but for those that were saved before and stay as they are.

        Names are told only to who could save the target: a refusal lists those that the policy knows.
        """
        policy = await self.engine.policy_of(self.caller.tenant)
        targets = targets_of(before.definition) if before else None
        calls = calls_of_definition(before.definition) if before else {}

        def names(asked: Any) -> Iterable[Problem]:
            wanted = targets_of(asked)
            return () if wanted == targets or self._missing_scopes(wanted) else unknown_names(wanted, policy)

        def urls(asked: Any) -> Iterable[Problem]:
            return url_problems(self.deployment, calls_of_definition(asked), calls)

        return names, urls

    def demand_readable(self, target: Target) -> None:
        """Refuse a command that is not a target, or that its stream could never read: it would fail at every tick."""
        if not isinstance(target, CommandTarget):
            return
        path, to = "target.stream.kind", self.stream(target.stream.kind, target.stream.id)
        try:
            kind = self.engine.kinds.of(to)
            path = "target.command"
            command = kind.command(encode(target.command), path)
            kind.check_command(command)
            kind.check_target(command)
        except (UnknownKind, Invalid, MalformedRow) as error:
            raise_problems(((path, str(error.__cause__ or error)),))

    async def change(
        self, stream: StreamId, command: Command, *, key: str | None = None, request: str = ""
    ) -> Recorded:
        """Submit a command; its key is one of the collection of its kind."""
        collection = f"{demanded_stream(stream).kind}s"
        return await self.submit(stream, command, key=key, collection=collection, request=request)

    async def segment(self, stream: StreamId, version: int) -> Segment | None:
        """One segment of a stream, if it was not pruned."""
        _, segments = await self.engine.store.history(demanded_stream(stream), version - 1, 1)
        return segments[0] if segments and segments[0].version == version else None

    def events_in(self, segment: Segment) -> tuple[Event, ...]:
        """Return the events of a segment; a checkpoint, which stands for what was pruned, has none."""
        return events_in(self.engine.kinds, segment)

    async def _list(
        self,
        query: StreamQuery,
        filters: Any,
        limit: int,
        cursor: str | None,
        view_of: Callable[[str, Any], Item],
        is_wanted: Callable[[StreamRow], bool] = lambda row: True,
    ) -> Page[Item]:
        """Return a page of streams, each as its state is shown."""

        async def show(row: StreamRow) -> Item:
            return view_of(row.stream.id, self.engine.kinds.state_in(row.stream, row))

        return await list_streams(self.engine.store, query, filters, limit, cursor, show, is_wanted)

    async def runs(self, run_ids: list[str]) -> dict[str, RunBrief]:
        """Return the outcome of each run that exists and can be read."""
        streams = [run_stream(self.caller.tenant, run_id) for run_id in dict.fromkeys(run_ids)]
        store, kinds = self.engine.store, self.engine.kinds
        found: Listing[tuple[StreamId, RunState]] = Listing()
        for start in range(0, len(streams), PAGE_MAX):
            rows = await store.load(streams[start : start + PAGE_MAX])
            for name, row in rows.items():
                with found.reading(name):
                    if state := kinds.state_in(name, row):
                        found.items.append((name, state))
        waiting = [state.asked_by for _, state in found.items if state.asked_by and state.status == "asked"]
        calls = await find_failing_calls(store, waiting)
        return {name.id: brief for name, state in found.items if (brief := run_brief(state, calls.get(name)))}


def apply_patch(view: Any, patch: Mapping[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of a definition after a JSON Merge Patch; `null` restores a default."""
    shown = msgspec.to_builtins(view)
    now = {name: shown[name] for name in fields}
    merged = apply_merge_patch(now, patch)
    return {name: value for name, value in merged.items() if value is not None}


def generated_id(prefix: str, key: str | None) -> str:
    """Return a generated id; the same for the same idempotency key."""
    return f"{prefix}_{sha256(key.encode()).hexdigest()[:20] if key else uuid4().hex[:20]}"


def raise_problems(problems: tuple[tuple[str, str], ...]) -> None:
    """Raise `Invalid` with every problem, if there is one."""
    if problems:
        raise refusal("field", problems)


def targets_of(definition: Any) -> tuple[Target, ...]:
    """Return everything a definition may cause: its target and what its evaluator may choose instead."""
    return (definition.target, *(getattr(definition, "allowed_targets", None) or ()))


def _causes(definition: Any) -> tuple[Any, ...]:
    """Return what a definition may cause, who chooses among it, and what it hands on."""
    return (*targets_of(definition), getattr(definition, "evaluator", None), definition.payload)
