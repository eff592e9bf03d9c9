"""The console: what a page costs a browser, and what people who look cost the server.

Pages are those of a town of forty people in a real Chromium. Load comes from a server in a process of its own, at
100,000 verdicts a minute, in alternating rounds with no viewer, one and twenty. Shares are of the processor's time,
which a busy machine distorts less than the clock on the wall; where it cannot keep up, they are scaled to the load.
What viewers cost is less than such rounds differ by themselves, so it is counted: of a further viewer the time of the
server's loop in its request, by frame; of the first one also the time of making the frame, one a second between the
verdicts that it tells of.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from playwright.async_api import Browser, CDPSession, Page

from benchmarks.domains.live import OFFERED_S, PER_S, Spent
from benchmarks.domains.service import DATABASES
from betimes.app.bootstrap import log_warnings
from betimes.app.routes import ROUTES
from betimes.console.site import START, load_assets, modules_of
from betimes.http.process import Process as ServerProcess
from betimes.ledger.pulse import BEAT_S
from tests.console.town import populated
from tests.console.visits import described_routes, open_browser, visit

Row = dict[str, Any]
PAGES = (
    *("", "/next", "/ledger", "/schedules", "/sensors", "/intents", "/runs", "/scores", "/effects"),
    *("/lab", "/try", "/health", "/admin", "/people/p0", "/accounts/p0"),
)
VIEWERS = 20
FLAT_VERDICTS = 6_000
"""Whatever the scale: some seconds, for a round shorter than a beat of the pulse has all of its cost or nothing."""
VISITS = 3
ROUNDS = 4
BEATS_MIN = 3
"""Whatever the scale: a round has some frames."""
FRAMES = 20
WATCH_CONTENT = (
    "new MutationObserver((_, watcher) => { if (document.querySelector('main h1')) {"
    " window.firstContentMs = performance.now(); watcher.disconnect(); } })"
    ".observe(document, {childList: true, subtree: true});"
)
_STREAM = "GET /v1/verdicts/stream?mode=pulse&sample=20 HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Tenant: default\r\n\r\n"


class PageCost(NamedTuple):
    """What one page asked for, holds, and how soon it had its heading."""

    path: str
    requests: int
    nodes: int
    first_ms: float
    first_cpu_ms: float
    """Of the browser's main thread."""


async def console(kind: str, scale: float) -> list[Row]:
    """The bounds of the console, each beside its goal."""
    log_warnings()  # the town's deliveries are logged otherwise
    rows = [*_shell_rows(), *(await _page_rows())] if kind == "sqlite" else []
    async with DATABASES[kind]() as url, loaded_server(url) as load, open_browser() as browser:
        rows += await _viewer_rows(load, scale)
        rows += await _browser_rows(load, browser, scale)
    return [{"store": kind, **row} for row in rows]


def _row(what: str, measured: float, goal: float, unit: str, note: str = "", *, at_least: bool = False) -> Row:
    return {
        "what": what,
        "measured": round(measured, 3),
        "goal": f"{'≥' if at_least else '≤'} {goal:g} {unit}".strip(),
        "of_goal": round(measured / goal, 3),
        "note": note,
    }


def _load_text() -> str:
    return f"a load of {os.getloadavg()[0] / (os.cpu_count() or 1):.1f} a core"


# -- pages


def _shell_rows() -> list[Row]:
    assets = load_assets()
    names = (*modules_of(assets, START), "style.css")
    return [_row("shell, gzip", sum(len(assets[name].packed) for name in names), 60_000, "B")]


async def _page_rows() -> list[Row]:
    """Return the worst of all pages for each bound."""
    with tempfile.TemporaryDirectory(prefix="betimes-bench-") as folder:
        async with populated(Path(folder)) as town, open_browser() as browser:
            costs = [await _measure_often(browser, town.address, path) for path in PAGES]
    most, largest, slowest = (max(costs, key=lambda one: one[place]) for place in (1, 2, 3))
    typical = median(one.first_ms for one in costs)
    thread = max(costs, key=lambda one: one.first_cpu_ms)
    busy = f"median {typical:.0f} ms, at {_load_text()}"
    return [
        _row("requests for a page", most.requests, 12, "", f"worst: /console{most.path}"),
        _row("DOM nodes of a page", largest.nodes, 3_000, "", f"worst: /console{largest.path}"),
        _row("first content, on the wall", slowest.first_ms, 500, "ms", f"worst: /console{slowest.path}; {busy}"),
        _row("first content, CPU of the page", thread.first_cpu_ms, 500, "ms", f"worst: /console{thread.path}"),
    ]


async def _measure_often(browser: Browser, address: str, path: str) -> PageCost:
    """Return the cost of a visit, with the median of several for what depends on the machine."""
    costs = [await _measure_page(browser, address, path) for _ in range(VISITS)]
    return costs[0]._replace(
        first_ms=median(one.first_ms for one in costs), first_cpu_ms=median(one.first_cpu_ms for one in costs)
    )


async def _measure_page(browser: Browser, address: str, path: str) -> PageCost:
    described = described_routes(msgspec.json.decode(ServerProcess(ROUTES).description))
    async with visit(browser, address, described) as seen:
        await seen.page.add_init_script(WATCH_CONTENT)
        devtools = await _main_thread(seen.page)
        page = await seen.open(f"/console{path}")
        spent_ms = (await _metrics(devtools))["TaskDuration"] * 1e3
        await page.wait_for_load_state("load")
        nodes = await page.evaluate("document.querySelectorAll('*').length")
        return PageCost(path, len(seen.requests), nodes, await page.evaluate("firstContentMs"), spent_ms)


# -- load


class LoadedServer:
    """A server process that triggers runs when it is told to."""

    def __init__(self, process: Process, address: str) -> None:
        self._process = process
        self.address = address
        self.frames = 0
        """That viewers have got."""

    async def spend(self, line: str) -> Spent:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n".encode())
        return msgspec.json.decode(await self._process.stdout.readline(), type=Spent)

    @asynccontextmanager
    async def viewers(self, wanted: int) -> AsyncIterator[None]:
        """Read so many pulses meanwhile."""
        readers = [asyncio.create_task(self._read()) for _ in range(wanted)]
        await asyncio.sleep(0.3)
        yield
        assert not any(reader.done() for reader in readers), "a pulse has ended"
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)

    async def _read(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(self.address).port)
        try:
            writer.write(_STREAM.encode())
            while line := await reader.readline():
                self.frames += line == b"event: frame\n"
        finally:
            writer.close()


@asynccontextmanager
async def loaded_server(url: str) -> AsyncIterator[LoadedServer]:
    program = (sys.executable, "-m", "benchmarks.console_load", url)
    process = await asyncio.create_subprocess_exec(*program, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield LoadedServer(process, (await process.stdout.readline()).decode().strip())
    finally:
        process.stdin.close()
        await process.wait()


class Round(NamedTuple):
    """What some seconds of the offered load took beside viewers, and how many frames these got."""

    spent: Spent
    frames: int


async def _viewer_rows(load: LoadedServer, scale: float) -> list[Row]:
    """Compare rounds that stood next to each other: with no viewer, one and twenty."""
    found: dict[int, list[Round]] = {0: [], 1: [], VIEWERS: []}
    flat: dict[int, list[Spent]] = {0: [], VIEWERS: []}
    for number in range(ROUNDS):
        for wanted in sorted(found, reverse=number % 2 == 1):
            async with load.viewers(wanted):
                before = load.frames
                spent = await load.spend(f"offer {max(OFFERED_S * scale, BEATS_MIN)}")
                found[wanted].append(Round(spent, load.frames - before))
                if wanted in flat:
                    flat[wanted].append(await load.spend(f"flat {FLAT_VERDICTS}"))
    frames = [_share(await load.spend(f"frame {PER_S:.0f}")) for _ in range(FRAMES)]
    offered = {wanted: [one.spent for one in rounds] for wanted, rounds in found.items()}
    reached = (
        f"{median(one.verdicts / one.wall_s for one in offered[0]):,.0f} of {PER_S:,.0f} verdicts/s, at {_load_text()}"
    )
    return [
        *_server_rows(frames, found),
        _row("verdict rate with 20 viewers, offered", _rate_ratio(offered), 0.95, "", reached, at_least=True),
        _row("verdict rate with 20 viewers, flat out", _rate_ratio(flat), 0.95, "", at_least=True),
        _row("verdicts per CPU second with 20, flat out", _thrift_ratio(flat), 0.95, "", at_least=True),
    ]


def _server_rows(frames: list[float], found: dict[int, list[Round]]) -> list[Row]:
    """Return what the first viewer costs, for whom frames are made, and what each further one, who gets the same."""
    pairs = list(zip(found[1], found[VIEWERS], strict=True))
    further = [(_loop_share(b, VIEWERS) - _loop_share(a, 1)) / (VIEWERS - 1) for a, b in pairs]
    each = median(further)
    low, _, high = quantiles(frames, n=4)
    middle = f"{median(frames):.2f}, half of {FRAMES} within {low:.2f}–{high:.2f}"
    made = f"making a frame of {PER_S:,.0f} verdicts: {middle}; sending it: {each:.3f}"
    spread = f"{VIEWERS} viewers; {ROUNDS} rounds: {min(further):.3f}–{max(further):.3f}"
    return [
        _row("server CPU, first viewer", median(frames) + each, 3, "% of a core", made),
        _row("server CPU, each further", each, 0.3, "% of a core", spread),
    ]


def _loop_share(found: Round, viewers: int) -> float:
    """Return the percentage of a core that the loop spends on so many viewers, who get a frame a second."""
    return 100 * viewers * found.spent.viewers_s / found.frames / BEAT_S


def _share(spent: Spent) -> float:
    """Return the percentage of a core at the load that is asked for."""
    return 100 * PER_S * spent.cpu_s / spent.verdicts


def _rate_ratio(found: dict[int, list[Spent]]) -> float:
    pairs = zip(found[0], found[VIEWERS], strict=True)
    return median((b.verdicts / b.wall_s) / (a.verdicts / a.wall_s) for a, b in pairs)


def _thrift_ratio(found: dict[int, list[Spent]]) -> float:
    pairs = zip(found[0], found[VIEWERS], strict=True)
    return median((a.cpu_s / a.verdicts) / (b.cpu_s / b.verdicts) for a, b in pairs)


async def _browser_rows(load: LoadedServer, browser: Browser, scale: float) -> list[Row]:
    """Measure the browser's main thread while the first page is open under load."""
    page = await browser.new_page()
    await page.goto(f"{load.address}/console")
    await page.locator("main h1").wait_for()
    devtools = await _main_thread(page)
    before = await _metrics(devtools)
    spent = await load.spend(f"offer {2 * OFFERED_S * scale}")
    after = await _metrics(devtools)
    share = 100 * (after["TaskDuration"] - before["TaskDuration"]) / spent.wall_s
    note = f"at {spent.verdicts / spent.wall_s:,.0f} verdicts/s; heap {after['JSHeapUsedSize'] / 2**20:.1f} MiB"
    return [_row("browser's main thread, Now open", share, 10, "% of a core", note)]


async def _main_thread(page: Page) -> CDPSession:
    """Let the browser count the processor's time of a page's main thread."""
    devtools = await page.context.new_cdp_session(page)
    await devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    return devtools


async def _metrics(devtools: CDPSession) -> dict[str, float]:
    found = await devtools.send("Performance.getMetrics")
    return {one["name"]: one["value"] for one in found["metrics"]}


SUITES = {"console": console}
