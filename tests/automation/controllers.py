"""Processes that ring alarms, under a test's command."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from typing import Any

import msgspec

from tests.automation.fleet_worker import Orders
from tests.crash.fleet import ROOT, Child, Fleet


class Controllers(Fleet):
    """A fleet of `tests.automation.fleet_worker`."""

    async def start(self, **orders: Any) -> Child:
        name = f"w{next(self._numbers)}"
        told = msgspec.json.encode(Orders(name=name, place=self.place, **orders)).decode()
        program = [sys.executable, "-m", "tests.automation.fleet_worker", told]
        process = await asyncio.create_subprocess_exec(*program, cwd=ROOT, stdout=PIPE)
        child = Child(name, process, self._news)
        self.children.append(child)
        return child
