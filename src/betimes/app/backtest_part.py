"""`python -m betimes.app.backtest_part`: rehearse one part of a backtest; started by `backtests`."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import time

import msgspec

from betimes.app.backtests import PartMessage, Task
from betimes.app.places import store_at
from betimes.backtest.lockstep import Lockstep
from betimes.backtest.part_runner import rehearse_part
from betimes.backtest.partition import Entangled, Lookout
from betimes.catalogue import DECIDERS, SECTIONS
from betimes.core.errors import BetimesError, Refused
from betimes.core.policies import PolicyBook
from betimes.engine.codecs import Kinds
from betimes.engine.tenants.decide import tenant_decider

TELL_EVERY_S = 0.2
COLLECT_EVERY = 100_000
"""Objects made before Python's collector looks for cycles; a rehearsal makes none, and many objects that stay."""


def main() -> None:
    # A terminal or a service manager signals all processes at once; the one that started this one decides when it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    gc.set_threshold(COLLECT_EVERY)
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    _say(asyncio.run(_rehearse_task(task)))


async def _rehearse_task(task: Task) -> PartMessage:
    book = PolicyBook(SECTIONS)
    kinds = Kinds([*DECIDERS, tenant_decider(book, DECIDERS)])
    store = store_at(task.url)
    await store.open()
    try:
        lockstep = Lockstep(kinds, book, task.settings, task.plan, lookout=Lookout(task.parts, task.part))
        return PartMessage(result=await rehearse_part(store, lockstep, task.reach, _Telling()))
    except Entangled as entangled:
        return PartMessage(entangled=entangled.tenant)
    except Refused as refused:
        return PartMessage(refused=(refused.reason, str(refused)))
    except BetimesError as error:
        return PartMessage(refused=(error.code, str(error)))
    finally:
        await store.close()


class _Telling:
    """Says how far it is, now and then."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def __call__(self, share: float) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + TELL_EVERY_S
            _say(PartMessage(progress=share))


def _say(said: PartMessage) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
