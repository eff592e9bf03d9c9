"""Cursors can be read by whoever gets them, so they name nothing of domains that the key may not read."""

from __future__ import annotations

from base64 import urlsafe_b64decode

import pytest

from betimes.catalogue import AREAS
from betimes.core.streams import StreamId
from betimes.ledger import effects, upcoming_items
from tests.http.areas import TENANT, client_of, clients_by_area, mark_of, populated_site
from tests.http.served import Client, Site


async def cursors_of(client: Client, path: str) -> tuple[list[str], list[str]]:
    """Return the cursors of a list as they can be read, and the ids of its items."""
    cursors, found, cursor = list[str](), list[str](), ""
    while True:
        page = (await client("GET", f"{path}&limit=1{cursor}")).json
        found += [item.get("effect_id") or item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            return cursors, found
        text = page["next_cursor"]
        cursors.append(urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
        cursor = f"&cursor={text}"


async def snooze_all(s: Site) -> None:
    admin = await client_of(s, "admin")
    for one in (await admin("GET", "/v1/upcoming/items?limit=200")).json["items"]:
        stream = StreamId(TENANT, one["kind"], one["id"])
        row = (await s.bt.engine.store.load([stream]))[stream]
        await s.bt.engine.store.snooze(stream, row.version, s.clock() + 3_600_000_000, "it broke")


@pytest.mark.parametrize("path", ["/v1/streams?snoozed=true", "/v1/upcoming/items?", "/v1/effects?"])
async def test_no_cursor_names_anything_of_a_domain_that_the_key_may_not_read(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with populated_site() as s:
        if "snoozed" in path:
            await snooze_all(s)
        # Pages that end after one row, whosever it is.
        monkeypatch.setattr(upcoming_items, "LOOKED_AT_MAX", 1)
        monkeypatch.setattr(effects, "LOOKED_AT_MAX", 1)
        monkeypatch.setattr(effects, "PAGE_MAX", 1)
        admin = await client_of(s, "admin")
        _, everything = await cursors_of(admin, path)
        assert len(everything) > 3, everything
        heard = list[str]()
        for area, client in (await clients_by_area(s)).items():
            cursors, found = await cursors_of(client, path)
            others = [mark_of(other) for other in AREAS if other != area]
            assert not [cursor for cursor in cursors if any(mark in cursor for mark in others)]
            heard += found
        assert sorted(heard) == sorted(everything), "nothing is left out, and nothing comes twice"
