"""A server under load, for whoever measures its console: `python -m benchmarks.console_load URL`.

It serves without keys, says where, and then does what it reads, a line at a time: `offer 2.5` triggers runs at 100,000
a minute for so many seconds, `flat 3000` so many as fast as it goes. It answers each line with what that took.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count

import msgspec

from benchmarks.domains.live import Spent, decide_triggers, offer_triggers
from betimes.app import Betimes
from tests.console.town import served


async def main(url: str) -> None:
    loop, numbers = asyncio.get_running_loop(), count(1)
    async with Betimes(url) as bt, served(bt) as found:
        await decide_triggers(bt, numbers, 500)
        print(found.address, flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            print(msgspec.json.encode(await _obey(bt, numbers, line)).decode(), flush=True)


async def _obey(bt: Betimes, numbers: count[int], line: str) -> Spent:
    verb, amount = line.split()
    if verb == "offer":
        return await offer_triggers(bt, numbers, float(amount))
    return await decide_triggers(bt, numbers, int(amount))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
