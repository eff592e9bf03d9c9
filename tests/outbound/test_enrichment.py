"""Scores from a provider that may be absent, slow, broken or wrong."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from betimes.notifications.enrichment import Enrichment, EnrichmentSettings, HttpProvider, Notification, Provider, read
from tests.outbound.receivers import SECRETS, receiver, speaking, webhooks
from tests.patience import HANGS_S

NOTIFICATION = {"event_id": "e1", "event_type": "MESSAGE", "title": "Hello"}
PATIENT = EnrichmentSettings(budget_s=10.0)
HASTY = EnrichmentSettings(budget_s=0.001)


@asynccontextmanager
async def enrichment(provider: Provider | None, settings: EnrichmentSettings = PATIENT) -> AsyncIterator[Enrichment]:
    asking = Enrichment(provider, name="classifier", settings=settings, clock=lambda: 0.0)
    try:
        yield asking
    finally:
        await asking.close()


@pytest.mark.parametrize(
    ("said", "value"),
    [
        (0, "0.0000"),
        (1, "1.0000"),
        (0.5, "0.5000"),
        (0.65, "0.6500"),
        (0.12344999, "0.1234"),
        (0.12345001, "0.1235"),
        (Decimal("0.99999"), "1.0000"),
        (-0.0, "0.0000"),
    ],
)
async def test_a_score_is_exact_to_four_decimals(said: Any, value: str) -> None:
    async with enrichment(lambda _: said) as asking:
        score = await asking.score(NOTIFICATION)
    assert score is not None
    assert (str(score.value), score.source) == (value, "classifier")
    assert score.ten_thousandths == int(Decimal(value) * 10_000)


@pytest.mark.parametrize(
    "said", [1.00001, -0.00001, float("nan"), float("inf"), Decimal("sNaN"), 10**30, "0.5", True, {"score": 1}, [1]]
)
async def test_what_is_no_score_is_absent_and_counted(said: Any) -> None:
    async with enrichment(lambda _: said) as asking:
        assert await asking.score(NOTIFICATION) is None
    assert asking.last_absence == "not_a_score"
    assert asking.absences == {"not_a_score": 1}


@given(st.one_of(st.floats(), st.decimals(), st.integers()))
def test_a_score_is_never_out_of_range(said: Any) -> None:
    value = read(said)
    if isinstance(value, Decimal):
        assert 0 <= value <= 1
        assert abs(value - Decimal(said)) < Decimal("0.0000501")
    else:
        assert value == "not_a_score"
        assert not (Decimal(said).is_finite() and 0 <= said <= 1)


async def test_without_a_provider_or_an_opinion_there_is_no_score_and_nobody_failed() -> None:
    async with enrichment(None) as asking:
        assert await asking.score(NOTIFICATION) is None
    assert asking.last_absence == "none_configured"
    async with enrichment(lambda _: None) as asking:
        for _ in range(10):
            assert await asking.score(NOTIFICATION) is None
    assert asking.absences == {"no_opinion": 10}


async def test_a_provider_is_given_the_notification() -> None:
    given_to: list[Notification] = []

    async def provider(notification: Notification) -> float:
        given_to.append(notification)
        return 0.5

    async with enrichment(provider) as asking:
        await asking.score(NOTIFICATION)
    assert given_to == [NOTIFICATION]


@pytest.mark.parametrize("raised", [ValueError("x"), StopIteration(), SystemExit(1), asyncio.CancelledError()])
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_provider_that_raises_gives_no_score(raised: BaseException, is_async: bool) -> None:
    async def provider(_: Notification) -> float:
        raise raised

    def plain(_: Notification) -> float:
        raise raised

    async with enrichment(provider if is_async else plain) as asking:
        assert await asking.score(NOTIFICATION) is None
    assert asking.last_absence == "failed"


async def test_a_provider_with_the_wrong_signature_gives_no_score() -> None:
    async def takes_nothing() -> float:
        return 1.0

    async def hidden(_: Notification) -> float:
        return 1.0

    for provider in (takes_nothing, lambda: 1.0, lambda notification: hidden(notification)):
        async with enrichment(provider) as asking:  # type: ignore[arg-type]
            assert await asking.score(NOTIFICATION) is None
        assert asking.last_absence == "failed"


async def test_a_slow_provider_is_cancelled_and_leaves_no_task() -> None:
    cancelled = asyncio.Event()

    async def provider(_: Notification) -> float:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return 1.0

    before = asyncio.all_tasks()
    async with enrichment(provider, HASTY) as asking:
        assert await asking.score(NOTIFICATION) is None
        await cancelled.wait()
        assert asking.last_absence == "too_slow"
    assert asking.under_way_count == 0
    assert asyncio.all_tasks() == before


async def test_a_provider_that_will_not_be_cancelled_is_not_waited_for_and_takes_a_bounded_place() -> None:
    released = asyncio.Event()

    async def stubborn(_: Notification) -> float:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return 1.0

    settings = EnrichmentSettings(budget_s=0.001, under_way_max=2)
    async with enrichment(stubborn, settings) as asking:
        for reason in ("too_slow", "too_slow", "busy", "busy"):
            assert await asking.score(NOTIFICATION) is None
            assert asking.last_absence == reason
        assert asking.under_way_count == 2
        released.set()
    assert asking.under_way_count == 0


async def test_a_blocking_provider_is_left_in_its_thread_and_takes_a_bounded_place() -> None:
    release = threading.Event()

    def blocking(_: Notification) -> float:
        release.wait(HANGS_S)
        return 1.0

    async with enrichment(blocking, EnrichmentSettings(budget_s=0.001, under_way_max=1)) as asking:
        for reason in ("too_slow", "busy"):
            assert await asking.score(NOTIFICATION) is None
            assert asking.last_absence == reason
        release.set()


async def test_after_five_failures_the_provider_is_left_alone_then_tried_once() -> None:
    seconds = [0.0]
    asked = 0
    broken = True

    async def provider(_: Notification) -> float:
        nonlocal asked
        asked += 1
        if broken:
            raise ValueError
        return 0.7

    asking = Enrichment(provider, settings=PATIENT, clock=lambda: seconds[0])
    for _ in range(8):
        assert await asking.score(NOTIFICATION) is None
    assert asked == 5
    assert asking.absences == {"failed": 5, "left_alone": 3}

    seconds[0] = 10.0
    assert await asking.score(NOTIFICATION) is None
    assert await asking.score(NOTIFICATION) is None
    assert asked == 6

    seconds[0], broken = 20.0, False
    for _ in range(3):
        score = await asking.score(NOTIFICATION)
        assert score is not None
        assert score.value == Decimal("0.7")
    assert asked == 9
    await asking.close()


async def test_a_trial_whose_caller_gives_up_does_not_block_the_next() -> None:
    seconds = [0.0]
    begun = asyncio.Event()

    async def provider(_: Notification) -> float:
        if seconds[0] == 0.0:
            raise ValueError
        if seconds[0] == 10.0:
            begun.set()
            await asyncio.Event().wait()
        return 0.7

    asking = Enrichment(provider, settings=PATIENT, clock=lambda: seconds[0])
    for _ in range(5):
        await asking.score(NOTIFICATION)
    seconds[0] = 10.0
    trial = asyncio.create_task(asking.score(NOTIFICATION))
    await begun.wait()
    assert await asking.score(NOTIFICATION) is None
    assert asking.last_absence == "left_alone"
    trial.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trial
    seconds[0] = 11.0
    assert await asking.score(NOTIFICATION) is not None
    await asking.close()


# -- over HTTP


async def test_an_endpoint_is_posted_the_notification_and_answers_with_the_score() -> None:
    async def classify(_: web.Request) -> web.Response:
        return web.json_response({"ai_intent_score": 0.65, "model": "m1"})

    async with (
        receiver(classify) as here,
        webhooks(secrets=lambda tenant: {"*": SECRETS["acme"]}[tenant]) as client,
        enrichment(HttpProvider(client, here.url)) as asking,
    ):
        score = await asking.score(NOTIFICATION)
    assert score is not None
    assert score.value == Decimal("0.65")
    [(headers, body)] = here.requests
    assert Webhook(SECRETS["acme"][0]).verify(body, dict(headers)) == NOTIFICATION


@pytest.mark.parametrize(
    ("status", "text", "absence"),
    [
        (200, '{"ai_intent_score": 1.5}', "not_a_score"),
        (200, '{"ai_intent_score": "0.5"}', "failed"),
        (200, '{"ai_intent_score": null}', "no_opinion"),
        (200, "{}", "failed"),
        (200, "", "failed"),
        (500, '{"ai_intent_score": 0.5}', "failed"),
    ],
)
async def test_an_endpoint_that_answers_anything_else_gives_no_score(status: int, text: str, absence: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text)

    async with (
        receiver(answer) as here,
        webhooks() as client,
        enrichment(HttpProvider(client, here.url, tenant="acme")) as asking,
    ):
        assert await asking.score(NOTIFICATION) is None
    assert asking.last_absence == absence


async def test_a_slow_endpoint_is_hung_up_on() -> None:
    async with speaking(b"HTTP/1.1 200 OK\r\n") as here, webhooks() as client:
        provider = HttpProvider(client, here.url, tenant="acme")
        async with enrichment(provider, EnrichmentSettings(budget_s=0.3)) as asking:
            assert await asking.score(NOTIFICATION) is None
        assert asking.last_absence == "too_slow"
        assert asking.under_way_count == 0
    assert len(here.requests) <= 1, "it is not asked again"
