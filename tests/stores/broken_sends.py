"""Stores that list the wrong commands to other streams."""

from __future__ import annotations

from typing import Any

from betimes.engine.store import WaitingSend
from tests.stores.broken import Broken


class ShowsSendsOfEveryTenant(Broken):
    async def waiting_sends(self, *args: Any, **asked: Any) -> list[WaitingSend]:
        return await super().waiting_sends(*args, **asked | {"tenant": None})


class ShowsSendsToEveryKind(Broken):
    async def waiting_sends(self, *args: Any, **asked: Any) -> list[WaitingSend]:
        return await super().waiting_sends(*args, **asked | {"kinds": None})


class ShowsTheOldestSendsAgain(Broken):
    async def waiting_sends(self, *args: Any, **asked: Any) -> list[WaitingSend]:
        return await super().waiting_sends(*args, **asked | {"after": None})


CAUGHT_SENDS: dict[type[Broken], str] = {
    ShowsSendsOfEveryTenant: "waiting_sends_of_one_tenant_are_told_apart",
    ShowsSendsToEveryKind: "waiting_sends_to_some_kinds_are_told_apart",
    ShowsTheOldestSendsAgain: "waiting_sends_are_listed_page_by_page",
}
