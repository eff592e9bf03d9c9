"""Who scores notifications is said in Python or in the configuration, and within which bounds."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from betimes.app.betimes import Betimes
from betimes.app.bootstrap import without_secrets
from betimes.app.configuration import read
from betimes.core.errors import Invalid, NotFound
from tests.cli.running_inside import command as betimes
from tests.notifications.people import request
from tests.outbound.receivers import receiver

PATIENT = "budget_s = 10.0\n"


def configured(folder: Path, text: str) -> Betimes:
    """The application that a configuration file describes, in memory."""
    file = folder / "betimes.toml"
    file.write_text(text)
    configuration = read(file, environment={})
    return Betimes("memory://", workers=False, settings=configuration.settings)


def test_config_tries_the_function_it_names(tmp_path: Path) -> None:
    (tmp_path / "betimes.toml").write_text('[enrichment]\npython = "shop_nowhere:weigh"\n')
    refused = betimes("config", folder=tmp_path)
    assert refused.code == NotFound("").exit_code
    assert "there is no module 'shop_nowhere'" in refused.err
    (tmp_path / "shop_nowhere.py").write_text("def weigh(note): return 0.5")
    assert betimes("config", folder=tmp_path).code == 0


async def test_a_python_function_of_the_configuration_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "shop_scores.py").write_text("def weigh(notification):\n    return 0.98765\n")
    async with configured(tmp_path, f'[enrichment]\npython = "shop_scores:weigh"\n{PATIENT}') as bt:
        answer = await bt.notifications.send(request())
        assert (answer.ai_used, answer.ai_score) == (True, Decimal("0.9876"))
        found = await bt.engine.store.history(bt.notifications._inbox("ann"), 0, 10)
        assert '"ai_source":"weigh"' in (found[1][0].command or "")


async def test_an_endpoint_of_the_configuration_scores(tmp_path: Path) -> None:
    async def classify(_: web.Request) -> web.Response:
        return web.json_response({"ai_intent_score": 0.9})

    async with receiver(classify) as here:
        allowed = '[webhooks]\nallow_http = true\nallow_networks = ["127.0.0.0/8"]\n'
        text = f'{allowed}[enrichment]\nurl = "{here.url}"\nname = "model-3"\n{PATIENT}'
        async with configured(tmp_path, text) as bt:
            sent = await bt.notifications.send_many([request(f"e{n}", f"user-{n}") for n in range(40)])
            assert {answer.ai_score for answer in sent if not isinstance(answer, BaseException)} == {Decimal("0.9")}
        assert len(here.requests) == 40


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('url = "https://a.example/"\npython = "a:b"', "enrichment"),
        ('url = "ftp://a.example/"', "enrichment.url"),
        ('python = "nothing"', "enrichment.python"),
        ("budget_s = 0", "enrichment.budget_s"),
        ('provider = "a:b"', "enrichment.provider"),
    ],
)
def test_what_cannot_work_is_refused_by_its_path(tmp_path: Path, text: str, path: str) -> None:
    with pytest.raises(Invalid) as refusal:
        configured(tmp_path, f"[enrichment]\n{text}\n")
    assert [found for found, _ in refusal.value.problems] == [path]


@pytest.mark.parametrize(
    ("place", "error"), [("no_such_module_of_scores:f", NotFound), ("math:no_such", NotFound), ("math:pi", Invalid)]
)
async def test_a_function_that_is_not_there_is_told_when_it_opens(
    tmp_path: Path, place: str, error: type[Exception]
) -> None:
    bt = configured(tmp_path, f'[enrichment]\npython = "{place}"\n')
    with pytest.raises(error, match=place.partition(":")[2] if error is NotFound else "float"):
        await bt.open()


async def test_two_who_say_who_scores_are_refused(tmp_path: Path) -> None:
    bt = configured(tmp_path, '[enrichment]\npython = "math:sqrt"\n')

    @bt.enrichment
    def score(_: Any) -> float:
        return 0.5

    with pytest.raises(Invalid, match="one place only"):
        await bt.open()


async def test_the_bounds_of_the_configuration_hold_for_a_declared_provider(tmp_path: Path) -> None:
    bt = configured(tmp_path, '[enrichment]\nbudget_s = 10.0\nname = "house"\n')

    @bt.enrichment
    def score(_: Any) -> float:
        return 0.9

    async with bt:
        assert (await bt.notifications.send(request())).ai_used


def test_the_configuration_is_shown_without_the_endpoints_secrets(tmp_path: Path) -> None:
    file = tmp_path / "betimes.toml"
    file.write_text('[enrichment]\nurl = "https://scores.example/v1?token=secret"\n')
    shown = without_secrets(read(file, environment={}))
    assert shown["enrichment"]["url"] == "https://scores.example/…"
