"""Apprise, kept at arm's length: in a bounded pool of threads, under a time limit, and silent.

Apprise is imported when the first message goes out. It blocks, so it runs in a thread, which cannot be broken off: a
send that takes too long fails here and may still arrive. Its URLs hold credentials and its log lines may hold its URLs,
so while it sends for us nothing it or its HTTP client logs is passed on; what others do with Apprise is not touched.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING

from betimes.core.errors import MissingExtra
from betimes.outbound.failures import ChannelSendFailed

if TYPE_CHECKING:
    from types import ModuleType

THREADS_MAX = 16
TALKATIVE = ("apprise", "requests", "urllib3", "urllib3.connectionpool", "urllib3.util.retry", "charset_normalizer")

_sending: ContextVar[bool] = ContextVar("betimes_sending", default=False)


class Apprised:
    """Sends through Apprise URLs."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="betimes-channel")

    def close(self) -> None:
        """Drop what has not begun; sends at work end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def send(self, channel: str, urls: Sequence[str], title: str, message: str, timeout_s: float) -> None:
        """Send to every URL, or raise a `ChannelSendFailed` that says nothing of them."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, _import_apprise)  # loading it is not the channel's slowness
        try:
            async with asyncio.timeout(timeout_s):
                # Each send has a context of its own, so that the mark by which the log filter knows it stays in it.
                failed = await loop.run_in_executor(self._threads, copy_context().run, _send, urls, title, message)
        except TimeoutError:
            raise ChannelSendFailed(f"the channel {channel!r} took longer than {timeout_s:g} s") from None
        if failed:
            raise ChannelSendFailed(f"the channel {channel!r} failed: {failed}")


def _send(urls: Sequence[str], title: str, message: str) -> str:
    """Send in this thread; return what went wrong, or an empty text."""
    apprise = _import_apprise()
    _sending.set(True)
    try:
        # one after the other in this thread, so that the log filter sees who sends
        service = apprise.Apprise(asset=apprise.AppriseAsset(async_mode=False))
        if not all(service.add(url) for url in urls):
            return "Apprise does not understand its URL"
        return "" if service.notify(title=title, body=message) else "Apprise could not deliver"
    except BaseException as error:  # noqa: BLE001 — a plug-in may raise anything, and what it says may quote its URL
        return f"Apprise raised {type(error).__name__}"


def _import_apprise() -> ModuleType:
    try:
        import apprise
    except ModuleNotFoundError as error:
        raise MissingExtra("this channel needs Apprise: pip install 'betimes[channels]'") from error
    for name in TALKATIVE:
        logging.getLogger(name).addFilter(_not_ours)  # adding it again changes nothing
    return apprise


def _not_ours(_: logging.LogRecord) -> bool:
    return not _sending.get()
