"""Workers outside against a default server, and sources that the configuration names."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from betimes.app import Betimes
from betimes.app.bootstrap import without_secrets
from betimes.app.configuration import parse_configuration, read
from betimes.core.errors import Invalid
from betimes.engine.virtual_clock import VirtualClock
from tests.cli.running import serving
from tests.intents.stories import body
from tests.patience import HANGS_S


@pytest.mark.crash
def test_a_worker_outside_claims_ten_price_intents_of_a_default_server(tmp_path: Path) -> None:
    with serving("serve", "--dev", "--port", "0", folder=tmp_path) as server:
        for number in range(10):
            made = server.ask("POST", "/v1/intents", body(intent_id=f"p{number}"))
            assert made.status == 201
        server.ask("POST", "/v1/intents", body("silence", intent_id="silence"))
        ends_s = time.monotonic() + HANGS_S
        while not server.ask("GET", "/v1/intents/silence/history").json["items"]:  # the built-in worker was here
            assert time.monotonic() < ends_s
        claimed = server.ask("POST", "/v1/intents/claim?limit=20", {"worker": "ours"}).json["items"]
        assert sorted(claim["intent"]["intent_id"] for claim in claimed) == [f"p{number}" for number in range(10)]
        for claim in claimed:
            path = f"/v1/intents/{claim['intent']['intent_id']}"
            fired = server.ask("POST", f"{path}/fire", {"status": "success", "claim_token": claim["claim_token"]})
            assert (fired.status, fired.json["status"]) == (200, "success")
            assert [item["status"] for item in server.ask("GET", f"{path}/history").json["items"]] == ["success"]
        assert server.stop() == 0


async def test_a_source_of_the_configuration_is_asked_with_its_secret_and_for_its_tenant() -> None:
    asked: list[tuple[str, str | None]] = []

    async def quote(request: web.Request) -> web.StreamResponse:
        asked.append((request.path, request.headers.get("Authorization")))
        return web.json_response({"data": {"last": 128.4}})

    app = web.Application()
    app.router.add_get("/{tenant}/{ticker}", quote)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/{{tenant}}/{{subject}}"
        price = SOURCES["sources"]["price"] | {"url": url}
        settings = parse_configuration(SOURCES | {"sources": {"price": price}}).settings
        async with Betimes("memory://", clock=VirtualClock(), settings=settings) as bt:
            await bt.intents.create(body(intent_id="nvda"))
            await bt.tick()
            assert (await bt.intents.get("nvda")).last_status == "success"
    finally:
        await runner.cleanup()
    assert asked == [("/default/NVDA", "Bearer s3cret")]


SOURCES: dict[str, Any] = {
    "sources": {
        "price": {
            "url": "https://quotes.example/{subject}",
            "field": "data.last",
            "timeout_s": 60,
            "headers": {"Authorization": "quotes_token"},
        }
    },
    "secrets": {"quotes_token": "Bearer s3cret"},
}


def test_a_configuration_names_every_source_and_secret_that_there_is_not() -> None:
    wrong = {
        "sources": {
            "prise": {"url": "https://quotes.example/{subject}"},
            "price": {"url": "https://quotes.example/{subject}", "headers": {"X-Key": "nobody"}},
            "portfolio": {"url": "https://quotes.example/all"},
        },
        "intents": {"worker": "sometimes"},
    }
    with pytest.raises(Invalid) as refused:
        parse_configuration(wrong)
    paths = {path for path, _ in refused.value.problems}
    assert paths == {"sources.prise", "sources.price.headers.X-Key", "sources.portfolio.url", "intents.worker"}


def test_a_secret_comes_from_the_environment_as_it_is_and_is_shown_by_its_name_only(tmp_path: Path) -> None:
    file = tmp_path / "betimes.toml"
    file.write_text('[sources.price]\nurl = "https://me:pw@quotes.example/{subject}"\nheaders = { X-Key = "token" }\n')
    configuration = read(file, {"BETIMES_SECRETS__TOKEN": "12345"})
    assert configuration.settings.sources["price"].headers == {"X-Key": "12345"}
    shown = str(without_secrets(configuration))
    assert "12345" not in shown
    assert "pw" not in shown
    assert "12345" not in repr(configuration.settings)
