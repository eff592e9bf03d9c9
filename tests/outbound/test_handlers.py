"""Python handlers, as registered and as the engine calls them."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from betimes.core.errors import Invalid
from betimes.engine.effects import GiveUp
from betimes.outbound.handlers import HandlerContext, Handlers
from tests.outbound.receivers import call
from tests.patience import HANGS_S


@pytest.fixture
def handlers() -> Iterator[Handlers]:
    registry = Handlers(threads_max=2)
    yield registry
    registry.close()


async def execute(handlers: Handlers, name: str, payload: Any = None) -> Any:
    return await handlers.executors()[f"handler:{name}"](call(payload, executor=f"handler:{name}", attempt=2))


async def test_a_plain_function_runs_in_a_thread_with_the_payload(handlers: Handlers) -> None:
    @handlers.handler("brief")
    def brief(payload: Any) -> Any:
        return {"got": payload, "here": threading.current_thread().name}

    result = await execute(handlers, "brief", {"a": 1})
    assert result["got"] == {"a": 1}
    assert result["here"].startswith("betimes-handler")
    assert brief({"still": "callable"})["got"] == {"still": "callable"}


async def test_an_async_function_runs_in_the_loop(handlers: Handlers) -> None:
    @handlers.handler("brief")
    async def brief(payload: Any) -> Any:
        return payload, asyncio.get_running_loop()

    assert await execute(handlers, "brief", 7) == (7, asyncio.get_running_loop())


async def test_a_handler_that_needs_two_arguments_is_given_the_context(handlers: Handlers) -> None:
    @handlers.handler("sync")
    def sync(payload: Any, context: HandlerContext) -> Any:
        return payload, context

    @handlers.handler("async")
    async def not_sync(payload: Any, context: HandlerContext) -> Any:
        return payload, context

    context = HandlerContext(effect_id="gate:front:7:0", tenant="acme", attempt=2)
    assert await execute(handlers, "sync", 1) == (1, context)
    assert await execute(handlers, "async", 1) == (1, context)


async def test_a_second_argument_with_a_default_is_the_handlers_own(handlers: Handlers) -> None:
    @handlers.handler("brief")
    def brief(payload: Any, style: str = "short") -> Any:
        return style

    assert await execute(handlers, "brief") == "short"


async def test_methods_partials_and_callable_objects_are_handlers_too(handlers: Handlers) -> None:
    class Desk:
        async def __call__(self, payload: Any) -> Any:
            return "called", payload

        def brief(self, payload: Any, context: HandlerContext) -> Any:
            return "brief", context.tenant

    handlers.handler("object")(Desk())
    handlers.handler("method")(Desk().brief)
    handlers.handler("partial")(functools.partial(max, 5))
    handlers.handler("late")(lambda payload: Desk()(payload))
    assert await execute(handlers, "object", 1) == ("called", 1)
    assert await execute(handlers, "method") == ("brief", "acme")
    assert await execute(handlers, "partial", 3) == 5
    assert await execute(handlers, "late", 1) == ("called", 1)


def test_a_name_registered_twice_is_refused(handlers: Handlers) -> None:
    early = handlers.handler("brief")
    handlers.handler("brief")(print)
    with pytest.raises(Invalid, match="'brief' exists already"):
        handlers.handler("brief")
    with pytest.raises(Invalid, match="'brief' exists already"):
        early(print)


@pytest.mark.parametrize("name", ["", "a b", "a:b", ".a", "a\n", "a" * 65])
def test_a_name_no_target_can_have_is_refused(handlers: Handlers, name: str) -> None:
    with pytest.raises(Invalid, match="not a valid handler name"):
        handlers.handler(name)


def test_a_function_that_takes_neither_one_nor_two_arguments_is_refused(handlers: Handlers) -> None:
    for function in (lambda: None, lambda a, b, c: None, lambda *, payload: None):
        with pytest.raises(Invalid, match="must take one argument"):
            handlers.handler("brief")(function)
    assert handlers.executors() == {}


@pytest.mark.parametrize("raised", [ValueError("x"), GiveUp("never")])
async def test_what_a_handler_raises_is_raised(handlers: Handlers, raised: Exception) -> None:
    @handlers.handler("sync")
    def sync(payload: Any) -> None:
        raise raised

    @handlers.handler("async")
    async def not_sync(payload: Any) -> None:
        raise raised

    for name in ("sync", "async"):
        with pytest.raises(type(raised)) as failure:
            await execute(handlers, name)
        assert failure.value is raised


@pytest.mark.parametrize("raised", [StopIteration(), SystemExit(3), asyncio.CancelledError()])
async def test_a_handler_can_neither_end_the_process_nor_hang_the_call(
    handlers: Handlers, raised: BaseException
) -> None:
    @handlers.handler("sync")
    def sync(payload: Any) -> None:
        raise raised

    with pytest.raises(RuntimeError, match="the handler"):
        await execute(handlers, "sync")


async def test_an_async_handler_cannot_end_the_process(handlers: Handlers) -> None:
    @handlers.handler("brief")
    async def brief(payload: Any) -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="exited with 3"):
        await execute(handlers, "brief")


async def test_blocking_handlers_leave_the_loop_free_and_the_pool_is_bounded(handlers: Handlers) -> None:
    both_in = threading.Barrier(2, timeout=HANGS_S)
    at_work: list[str] = []

    @handlers.handler("block")
    def block(payload: Any) -> None:
        both_in.wait()
        at_work.append(threading.current_thread().name)

    await asyncio.gather(*(execute(handlers, "block") for _ in range(4)))
    assert len(at_work) == 4
    assert len(set(at_work)) == 2


async def test_a_thread_sees_the_context_variables_of_its_call(handlers: Handlers) -> None:
    correlation: ContextVar[str] = ContextVar("correlation")

    @handlers.handler("brief")
    def brief(payload: Any) -> str:
        return correlation.get()

    correlation.set("abc")
    assert await execute(handlers, "brief") == "abc"


async def test_where_a_function_failed_is_in_the_log_unless_it_gave_up_on_purpose(
    handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> None:
    async def breaks(payload: Any) -> None:
        raise LookupError("no such file")

    async def gives_up(payload: Any) -> None:
        raise GiveUp("no device")

    for function, kind in ((breaks, LookupError), (gives_up, GiveUp)):
        with pytest.raises(kind):
            await handlers.bind(function)({}, HandlerContext("account:a:1:0", "acme", 1))
    [record] = caplog.records
    assert "breaks failed when called for account:a:1:0" in record.message
    assert record.exc_info
    assert record.exc_info[2]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_function_that_fails_again_at_the_same_place_takes_one_line_of_the_log(
    handlers: Handlers, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    def breaks(payload: Any) -> None:
        if payload:
            raise LookupError("no such file")
        raise LookupError("another place")

    async def breaks_later(payload: Any) -> None:
        breaks(payload)

    call = handlers.bind(breaks_later if is_async else breaks)
    for attempt, payload in enumerate(({"a": 1}, {"a": 1}, {}), start=1):
        with pytest.raises(LookupError):
            await call(payload, HandlerContext("account:a:1:0", "acme", attempt))
    first, again, elsewhere = caplog.records
    assert first.exc_info
    assert first.exc_info[2]
    assert first.exc_info[2].tb_frame.f_code.co_name == ("breaks_later" if is_async else "breaks")
    assert again.message.endswith("failed again when called for account:a:1:0: LookupError('no such file')")
    assert not again.exc_info
    assert elsewhere.exc_info
