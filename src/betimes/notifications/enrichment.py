"""Enrichment: a provider is asked how much a notification matters, within a few milliseconds or not at all.

The provider is a Python callable, sync or async, or an HTTP endpoint (`HttpProvider`). It is given the notification and
answers with a number from 0 to 1, or None for no opinion. A decision never waits for it: past the budget, after an
error or an answer that is none, there is no score, and a breaker leaves a provider that keeps failing alone. Why there
was none is counted in `absences` and kept in `last_absence`.

A bounded number of questions is under way at once; the others wait for a place, for a bounded time too. A question that
gets no place in time has no score, and that is no failure: only an error or a time-out of the provider is one. A
batch asks its next question when one before it has ended, so its questions do not wait for each other. A provider that
is too slow is cancelled, and nobody waits for it to obey: until it has, it takes its place, and so does a thread, which
cannot be cancelled at all. Places that are all lost that way are not waited for.

The budget is the provider's time. While this process is busy with its own work it cannot hear an answer that has long
come, so a pause of its event loop counts as one tenth of the budget at most.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from decimal import ROUND_HALF_EVEN, Decimal
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from betimes.core.bounds import read_json
from betimes.core.canonical import encode, fingerprint
from betimes.engine.engine import stop_tasks
from betimes.outbound.circuit_breaker import Breaker
from betimes.outbound.webhooks import Webhooks

Notification: TypeAlias = Mapping[str, Any]
Provider: TypeAlias = Callable[[Notification], Any]
Absence: TypeAlias = Literal["none_configured", "no_opinion", "too_slow", "failed", "not_a_score", "busy", "left_alone"]

DEPLOYMENT = "*"
BUDGET_PARTS = 10
"""The budget is waited for in so many parts; each is over when the event loop has come round, however late."""
_PLACES = Decimal("0.0001")


class EnrichmentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The provider to ask, and the limits on its time and its failures."""

    url: (
        Annotated[
            str,
            msgspec.Meta(
                max_length=2_000, pattern=r"^https?://", description="an address that begins with http:// or https://"
            ),
        ]
        | None
    ) = None
    """The endpoint that is asked: posted the notification, signed, it answers `{ai_intent_score}`."""
    python: (
        Annotated[str, msgspec.Meta(pattern=r"^[\w.]+:\w+\Z", description="module:name, such as shop.scores:score")]
        | None
    ) = None
    """The function that is asked, as `module:name`."""
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | None = None
    """The name recorded with its scores; left out, the function's name or the endpoint's host."""
    budget_s: Annotated[float, msgspec.Meta(gt=0, le=10)] = 0.03
    """How long the provider may take."""
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=10)] = 0.25
    """How long a question waits until it can be asked, when `under_way_max` others are."""
    batch_s: Annotated[float, msgspec.Meta(gt=0, le=20)] = 5.0
    """How long the questions of a batch may take in all; what was not asked by then falls back."""
    under_way_max: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 32
    """Questions at once, those that were given up but have not ended included."""
    failures_max: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 5
    window_s: Annotated[float, msgspec.Meta(gt=0, le=3_600)] = 10.0
    open_s: Annotated[float, msgspec.Meta(gt=0, le=3_600)] = 10.0

    def __post_init__(self) -> None:
        if self.url and self.python:
            raise ValueError("both url and python are set; only one provider is asked, so set one of them")


class ProviderScore(msgspec.Struct, frozen=True):
    """The score that the provider gave."""

    value: Decimal
    """0 to 1, four decimals."""
    source: str
    """The provider's name, to be recorded beside the value."""

    @property
    def ten_thousandths(self) -> int:
        return int(self.value.scaleb(4))


class HttpProvider:
    """An endpoint that is posted the notification and answers `{ai_intent_score}`."""

    def __init__(self, webhooks: Webhooks, url: str, *, tenant: str = DEPLOYMENT) -> None:
        """`tenant` is whose secret signs: the endpoint belongs to the deployment unless said otherwise."""
        self._webhooks = webhooks
        self._url = url
        self._tenant = tenant

    async def __call__(self, notification: Notification) -> Any:
        body = encode(notification).encode()
        id = f"score:{fingerprint(notification)}"
        said = await self._webhooks.post(self._url, body, id=id, tenant=self._tenant)
        return msgspec.convert(read_json(said), _Answer).ai_intent_score


class _Answer(msgspec.Struct, frozen=True):
    ai_intent_score: float | None


class Enrichment:
    """Asks one provider; close it to end what is under way."""

    def __init__(
        self,
        provider: Provider | None,
        *,
        name: str = "provider",
        settings: EnrichmentSettings | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`clock` is monotonic, in seconds; left out, it is the event loop's."""
        self._provider = provider
        self._name = name
        self._settings = settings or EnrichmentSettings()
        self._breaker = Breaker(
            clock or (lambda: asyncio.get_running_loop().time()),
            failures_max=self._settings.failures_max,
            window_s=self._settings.window_s,
            open_s=self._settings.open_s,
        )
        self._threads = ThreadPoolExecutor(self._settings.under_way_max, thread_name_prefix="betimes-enrichment")
        self._under_way: set[asyncio.Future[Any]] = set()
        self._given_up: set[asyncio.Future[Any]] = set()
        self._places = asyncio.Semaphore(self._settings.under_way_max)
        self.absences: Counter[Absence] = Counter()
        self.last_absence: Absence | None = None

    @property
    def under_way_count(self) -> int:
        return len(self._under_way)

    async def close(self) -> None:
        """Cancel what is under way and wait for it, except for threads, which end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        tasks = [work for work in self._under_way if isinstance(work, asyncio.Task)]
        await stop_tasks(tasks)

    async def score(self, notification: Notification) -> ProviderScore | None:
        """Return the provider's score, or None if it gives none within the budget."""
        outcome = await self._outcome(notification)
        if isinstance(outcome, Decimal):
            return ProviderScore(outcome, self._name)
        self._count_absence(outcome)
        return None

    async def score_many(self, notifications: Sequence[Notification]) -> list[ProviderScore | None]:
        """Return the score of each, in order, or None; no more are asked at once than there are places."""
        scores: list[ProviderScore | None] = [None] * len(notifications)
        ends_s = asyncio.get_running_loop().time() + self._settings.batch_s
        # All who ask share one iterator, so each takes the next that nobody has.
        left = iter(enumerate(notifications))
        askers = min(len(notifications), self._settings.under_way_max)
        await asyncio.gather(*(self._ask_in_turn(left, scores, ends_s) for _ in range(askers)))
        return scores

    async def _ask_in_turn(
        self, left: Iterator[tuple[int, Notification]], scores: list[ProviderScore | None], ends_s: float
    ) -> None:
        """Ask about one after the other of those that are left, until the batch has taken too long."""
        loop = asyncio.get_running_loop()
        for place, notification in left:
            if loop.time() < ends_s:
                scores[place] = await self.score(notification)
            else:
                self._count_absence("busy")

    def _count_absence(self, absence: Absence) -> None:
        self.absences[absence] += 1
        self.last_absence = absence

    async def _outcome(self, notification: Notification) -> Decimal | Absence:
        if self._provider is None:
            return "none_configured"
        if not self._breaker.lets_pass:
            return "left_alone"
        if not await self._take_place():
            return "busy"
        passage = self._breaker.enter()  # it may have opened while this question waited
        if passage is None:
            self._places.release()
            return "left_alone"
        try:
            outcome = await self._ask(self._provider, notification)
        except asyncio.CancelledError:
            self._breaker.withdraw(passage)
            raise
        if isinstance(outcome, Decimal) or outcome == "no_opinion":
            self._breaker.record_success(passage)
        else:
            self._breaker.record_failure(passage)
        return outcome

    async def _take_place(self) -> bool:
        """Wait until the question can be asked; False if that is too long, or never while places are lost."""
        if len(self._given_up) >= self._settings.under_way_max:
            return False
        try:
            async with asyncio.timeout(self._settings.wait_s):
                return await self._places.acquire()
        except TimeoutError:
            return False

    async def _ask(self, provider: Provider, notification: Notification) -> Decimal | Absence:
        work = self._start(provider, notification)
        try:
            await self._wait_within_budget(work)
        finally:
            finished = work.done()
            if not finished:
                # It keeps its place until it ends: a thread cannot be stopped, and more must not pile up behind it.
                self._given_up.add(work)
                if isinstance(work, asyncio.Task):
                    work.cancel()
        if not finished:
            return "too_slow"
        if work.cancelled() or work.exception() is not None:
            return "failed"
        return read(work.result())

    async def _wait_within_budget(self, work: asyncio.Future[Any]) -> None:
        """Wait until it is done or the budget is used up, in parts: see the top of this file."""
        for _ in range(BUDGET_PARTS):
            await asyncio.wait({work}, timeout=self._settings.budget_s / BUDGET_PARTS)
            if work.done():
                return

    def _start(self, provider: Provider, notification: Notification) -> asyncio.Future[Any]:
        work: asyncio.Future[Any]
        if inspect.iscoroutinefunction(provider) or inspect.iscoroutinefunction(type(provider).__call__):
            work = asyncio.ensure_future(_await_provider(provider, notification))
        else:
            call = partial(copy_context().run, _call_provider, provider, notification)
            work = asyncio.get_running_loop().run_in_executor(self._threads, call)
        self._under_way.add(work)
        work.add_done_callback(self._clean_up)
        return work

    def _clean_up(self, work: asyncio.Future[Any]) -> None:
        self._under_way.discard(work)
        self._given_up.discard(work)
        self._places.release()
        if not work.cancelled():
            work.exception()  # retrieved, so that asyncio does not report an error that nobody waits for


def read(said: Any) -> Decimal | Absence:
    """Return the score in a provider's answer, rounded exactly to four decimals, or why it is none."""
    if said is None:
        return "no_opinion"
    if isinstance(said, bool) or not isinstance(said, int | float | Decimal):
        return "not_a_score"
    # By its shortest text: the float 0.65 is a little more than that, and 0.65 is a threshold.
    value = Decimal(str(said)) if isinstance(said, float) else Decimal(said)
    if not value.is_finite() or not 0 <= value <= 1:
        return "not_a_score"
    return abs(value.quantize(_PLACES, ROUND_HALF_EVEN))


async def _await_provider(provider: Provider, notification: Notification) -> Any:
    try:
        return await provider(notification)
    except SystemExit as error:
        raise RuntimeError("the provider exited") from error


def _call_provider(provider: Provider, notification: Notification) -> Any:
    try:
        said = provider(notification)
    except (StopIteration, SystemExit, asyncio.CancelledError) as error:  # a future cannot carry these
        raise RuntimeError(f"the provider raised {error!r}") from error
    if inspect.iscoroutine(said):
        said.close()
        raise TypeError("the provider returned a coroutine; make it an async function")
    return said
