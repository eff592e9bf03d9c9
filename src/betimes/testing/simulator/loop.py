"""An asyncio event loop whose time and order come from a seed.

Callbacks that are ready run in an order drawn from the seed, not first in first out, so that whatever may interleave
does, and does so again under the same seed. Time stands still while anything is ready and then jumps to the next timer;
nothing ever waits. There is no input or output. When nothing is ready, no timer is set and the main task is not done,
nothing can ever happen again: that is a `Deadlock`.

Every callback belongs to the `Process` in whose context it was made. A process can be stopped, as by SIGSTOP: its
callbacks are put aside and run after it goes on. One that is killed stays stopped until the loop is unwound.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, TypeVar

Result = TypeVar("Result")

STEPS_MAX = 60_000
UNWINDS_MAX = 20


class Deadlock(Exception):
    """Nothing is ready, no timer is set, and the main task waits."""


class Endless(Exception):
    """More callbacks ran than a bounded run can need: something goes round in circles."""


class Process:
    """One simulated process: what runs in its context belongs to it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_stopped = False
        self.aside: list[asyncio.Handle] = []
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return f"Process({self.name})"


PROCESS: ContextVar[Process | None] = ContextVar("betimes_simulated_process", default=None)


class SeededLoop(asyncio.BaseEventLoop):
    """Runs coroutines to their end in virtual time."""

    _ready: list[asyncio.Handle]
    _stopping: bool
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, random: Random, *, steps_max: int = STEPS_MAX) -> None:
        super().__init__()
        self._ready = []
        self._draw = random.random
        self._now_s = 0.0
        self._steps_max = steps_max
        self._main: asyncio.Task[Any] | None = None
        self._stopped: list[Process] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self.steps = 0
        self.failures: list[dict[str, Any]] = []
        """What asyncio would have logged: exceptions nobody was there to see."""
        self.set_exception_handler(lambda loop, context: self.failures.append(context))

    def time(self) -> float:
        return self._now_s

    def run(self, main: Coroutine[Any, Any, Result]) -> Result:
        """Run the coroutine to its end, then unwind whatever it left."""
        task: asyncio.Task[Result] = self.create_task(main)
        self._main = task
        try:
            return self.run_until_complete(task)
        finally:
            self.unwind()
            self.close()

    # -- processes

    def stop_process(self, process: Process) -> None:
        process.is_stopped = True
        self._stopped.append(process)

    def continue_process(self, process: Process) -> None:
        process.is_stopped = False
        self._stopped.remove(process)
        self._ready += process.aside
        process.aside.clear()

    def spawn(self, process: Process, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        return self.create_task(work, context=process.context)

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> asyncio.Task[Any]:
        """As asyncio does, but a task is kept to the end, so that none is lost while its process is stopped."""
        task: asyncio.Task[Any] = super().create_task(coro, name=name, context=context)
        self._tasks.append(task)
        return task

    def unwind(self) -> None:
        """Cancel every task and let it clean up, so that nothing is left for the garbage collector."""
        for process in list(self._stopped):
            self.continue_process(process)
        self._steps_max = self.steps + STEPS_MAX
        for _ in range(UNWINDS_MAX):
            left = [task for task in self._tasks if not task.done()]
            if not left:
                break
            for task in left:
                task.cancel()
            self.run_until_complete(asyncio.wait(left, timeout=60))
        self.run_until_complete(self.shutdown_asyncgens())

    # -- one step; the names are those that asyncio calls

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def get_debug(self) -> bool:
        return False

    def _run_once(self) -> None:
        """Run until stopped: asyncio asks for one round at a time, and a round may be as long as it likes."""
        ready, draw = self._ready, self._draw
        while not self._stopping:
            if not ready:
                self._advance()
            self._count_step()
            place = int(draw() * len(ready))
            handle = ready[place]
            ready[place] = ready[-1]
            ready.pop()
            process = handle._context.get(PROCESS)  # type: ignore[attr-defined]
            if process is not None and process.is_stopped:
                process.aside.append(handle)
            elif not handle._cancelled:
                handle._run()

    def _count_step(self) -> None:
        if self.steps >= self._steps_max:
            raise Endless(f"{self._steps_max} callbacks ran and the main task is not done at {self._now_s:.3f} s")
        self.steps += 1

    def _advance(self) -> None:
        timers = self._scheduled
        while timers and timers[0]._cancelled:
            heapq.heappop(timers)._scheduled = False  # type: ignore[attr-defined]
        if not timers:
            raise Deadlock(f"nothing is ready, no timer is set, and {self._waiting_for()} at {self._now_s:.3f} s")
        self._now_s = max(self._now_s, timers[0].when())
        while timers and timers[0].when() <= self._now_s:
            timer = heapq.heappop(timers)
            timer._scheduled = False  # type: ignore[attr-defined]
            self._ready.append(timer)

    def _waiting_for(self) -> str:
        if self._main is None or self._main.done():
            return "a task is not done"
        stack = self._main.get_stack(limit=1)
        where = f" at line {stack[0].f_lineno} of {stack[0].f_code.co_filename}" if stack else ""
        return f"{self._main.get_name()} waits{where}"

    def _write_to_self(self) -> None:
        """There is no other thread to wake the loop."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        raise RuntimeError("a simulated process has no threads; do the work in the loop")
