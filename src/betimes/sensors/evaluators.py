"""Evaluators of sensors: Python callables by name, and HTTP endpoints of the same shape.

    evaluators = Evaluators(webhooks)

    @evaluators.evaluator("orders")
    async def orders(cursor, ctx):                       # of a push sensor: (message, ctx)
        new = await fetch(since=cursor)
        return Evaluation(cursor=new.last, run_requests=tuple(RunRequest(f"order-{o}") for o in new.orders))

An evaluator is called outside any lock, within the sensor's time limit. The sensor decides on its answer; this module
only checks that the answer can be recorded.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from betimes.core.bounds import check_json, read_json
from betimes.core.canonical import encode
from betimes.core.deciders import EffectCall
from betimes.core.errors import Invalid, Refused
from betimes.engine.effects import Executor, GiveUp
from betimes.sensors.model import Evaluation, Evaluator, HandlerEvaluator, WebhookEvaluator

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


class EvaluationContext(msgspec.Struct, frozen=True):
    """The tenant and sensor that an evaluator works for."""

    tenant: str
    sensor_id: str
    state_version: int | None
    """Of a poll sensor, when the evaluation began."""
    id: str
    """The same on every attempt."""


Function = Callable[[Any, EvaluationContext], Awaitable[Any]]
Decorated = TypeVar("Decorated", bound=Function)


class Posts(Protocol):
    """The part of webhooks that evaluators need."""

    async def post(
        self,
        url: str,
        body: bytes,
        *,
        id: str,
        tenant: str,
        timeout_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes: ...


class Evaluators:
    """The evaluators this process can call. Its `executors()` go to the engine, itself to `Sensors(evaluate=…)`."""

    def __init__(self, webhooks: Posts | None = None) -> None:
        self._webhooks = webhooks
        self._functions: dict[str, Function] = {}

    def evaluator(self, name: str) -> Callable[[Decorated], Decorated]:
        """Register the decorated async function under a name; raise `Invalid` if it is not async."""
        if not _NAME.fullmatch(name) or name in self._functions:
            raise Invalid(f"{name[:64]!r} is not a valid name for an evaluator, or is taken already")

        def register(function: Decorated) -> Decorated:
            _demand_async(name, function)
            self._functions[name] = function
            return function

        return register

    def executors(self) -> dict[str, Executor]:
        executors: dict[str, Executor] = {f"evaluator:{name}": self._execute for name in self._functions}
        if self._webhooks:
            executors["evaluator"] = self._execute
        return executors

    async def _execute(self, call: EffectCall) -> Any:
        asked = call.payload
        evaluator: Evaluator = (
            WebhookEvaluator(asked["url"])
            if "url" in asked
            else HandlerEvaluator(call.executor.removeprefix("evaluator:"))
        )
        try:
            return await self._call(call.id.tenant, evaluator, asked["body"], asked["timeout_s"], call.id.handle)
        except TimeoutError:
            raise TimeoutError(f"no answer within {asked['timeout_s']} s") from None

    async def __call__(self, tenant: str, evaluator: Evaluator, body: Mapping[str, Any], timeout_s: int) -> Any:
        """Call an evaluator by hand."""
        if isinstance(evaluator, HandlerEvaluator) and evaluator.name not in self._functions:
            raise Refused("EVALUATOR_NOT_HERE", f"this process has no evaluator {evaluator.name!r}")
        if isinstance(evaluator, WebhookEvaluator) and self._webhooks is None:
            raise Refused("EVALUATOR_NOT_HERE", "this process cannot call webhooks")
        return await self._call(tenant, evaluator, body, timeout_s, f"manual:{body['sensor_id']}")

    async def _call(self, tenant: str, evaluator: Evaluator, body: Mapping[str, Any], timeout_s: int, id: str) -> Any:
        async with asyncio.timeout(timeout_s):
            if isinstance(evaluator, WebhookEvaluator):
                return await self._call_http(tenant, evaluator.url, body, timeout_s, id)
            function = self._functions[evaluator.name]
            context = EvaluationContext(tenant, body["sensor_id"], body.get("state_version"), id)
            answer = await function(body["message"] if "message" in body else body["cursor"], context)
        return _check_answer(check_json, msgspec.to_builtins(answer) if isinstance(answer, Evaluation) else answer)

    async def _call_http(self, tenant: str, url: str, body: Mapping[str, Any], timeout_s: int, id: str) -> Any:
        if self._webhooks is None:
            raise GiveUp("this process cannot call webhooks")
        sent = encode(body).encode()
        answer = await self._webhooks.post(url, sent, id=id, tenant=tenant, timeout_s=timeout_s)
        return _check_answer(read_json, answer) if answer else None


def _demand_async(name: str, function: Callable[..., Any]) -> None:
    """Refuse what cannot be awaited where it is declared: otherwise every poll would fail with a `TypeError`."""
    if not inspect.iscoroutinefunction(function) and not inspect.iscoroutinefunction(type(function).__call__):
        raise Invalid(f"the evaluator {name!r} is not async; write it as `async def`")


def _check_answer(check: Callable[[Any], Any], answer: Any) -> Any:
    try:
        return check(answer)
    except Invalid as error:
        raise ValueError(f"the evaluator's answer cannot be recorded: {error}") from None
