"""Run handlers: a run is durably started before its handler is called, and never called again.

An executor wrapped by `RunStarter` first tells the run's stream that it starts. Only the process that started the run
calls the handler; a second one, or one that comes after the run was abandoned, is refused and calls nothing. The
payloads of the triggers that led to the run are read from the ledger and handed over with the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from betimes.core.deciders import EffectCall
from betimes.core.errors import Invalid, Overloaded, Refused, Unavailable
from betimes.core.streams import StreamId
from betimes.engine.effects import BoundedExecutor, Executor, GiveUp, NotStarted
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.runs.model import StartRun
from betimes.runs.payloads import RunInput, run_input_of


class RunStarter:
    """Wrap executors so that a run is started before its handler is called; set `engine` once there is one."""

    def __init__(self, worker: str) -> None:
        self.engine: Engine | None = None
        self._worker = worker

    def wrap(self, executors: Mapping[str, Executor]) -> dict[str, Executor]:
        """Return the executors, each of which starts a run before it calls the run's handler."""
        return {name: self._wrap_executor(executor) for name, executor in executors.items()}

    def _wrap_executor(self, executor: Executor) -> Executor:
        async def execute(call: EffectCall) -> Any:
            if call.at_most_once and call.report_to and call.report_to.kind == "run":
                call = await self._start_run(call, call.report_to)
            return await executor(call)

        return BoundedExecutor(execute, executor.calls_max) if isinstance(executor, BoundedExecutor) else execute

    async def _start_run(self, call: EffectCall, run: StreamId) -> EffectCall:
        if self.engine is None:
            raise Invalid("a RunStarter needs its engine: set `starter.engine` once the engine is made")
        command = StartRun(call.id.handle, self._worker)
        try:
            brought = await self._input(self.engine, run)
            await self.engine.submit(Submission(stream=run, command=command, actor=self._worker))
        except Refused as refusal:
            raise GiveUp(str(refusal)) from refusal
        except (Unavailable, Overloaded) as error:
            raise NotStarted(f"{error.code}: the run was not started") from error
        return replace(call, payload=_with_input(call.payload, brought.body()))

    async def _input(self, engine: Engine, run: StreamId) -> RunInput:
        """Read what the run is called with before it is started: one that is started is called."""
        [state] = await engine.load_states(run)
        return await run_input_of(engine.store, run.tenant, state) if state else RunInput()


def _with_input(payload: Any, brought: dict[str, Any]) -> Any:
    """Add the input to the detail: a handler's payload is the detail itself, a webhook's has it in its envelope."""
    if "body" in payload:
        body = payload["body"]
        return {**payload, "body": {**body, "detail": {**body["detail"], **brought}}}
    return {**payload, **brought}
