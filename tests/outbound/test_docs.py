"""The examples of the page on effects run and say what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import msgspec

from betimes.notifications.enrichment import EnrichmentSettings
from betimes.outbound.channels import ChannelSettings
from betimes.outbound.settings import WebhookSettings
from tests.patience import HANGS_S

PAGE = (Path(__file__).parents[2] / "docs" / "effects.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_examples_run() -> None:
    verify, handler, channel = blocks("python")
    for example, printed in ((verify, """b'{"thanks for": "r1"}'\n"""), (handler, ""), (channel, "")):
        run = [sys.executable, "-c", example]
        done = subprocess.run(run, capture_output=True, text=True, timeout=HANGS_S, check=False)
        assert (done.stdout, done.stderr) == (printed, "")
        assert printed.strip() in PAGE


def test_the_example_of_a_configuration_is_one() -> None:
    [text] = blocks("json")
    settings = msgspec.json.decode(text, type=ChannelSettings)
    assert settings.of("acme", "sms") is None
    assert settings.of("other", "sms") is not None


def test_every_setting_is_on_the_page() -> None:
    for settings in (WebhookSettings, EnrichmentSettings):
        for field in msgspec.structs.fields(settings):
            assert f"`{field.name}`" in PAGE, field.name
