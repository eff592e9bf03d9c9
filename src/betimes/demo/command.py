"""`betimes demo`: a short story about every domain, then a simulated town."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from betimes.cli.output import announce_json, say, terminal, text
from betimes.core.errors import Invalid
from betimes.demo.lines import TOWN_SCENE, StoryLine, TownOptions

COLOURS = {
    "ALLOW": "green",
    "NOW": "green",
    "fired": "green",
    "triggered": "green",
    "DEFER": "yellow",
    "LATER": "yellow",
    "SKIP": "red",
    "NEVER": "red",
    "game over": "red",
}
ENDING = """\
Nothing of it is kept. Next, with your own data, on disk:

  {command} serve --dev      # console and HTTP API on http://127.0.0.1:8080, described at /docs
  {command} backtest --help  # what another policy would have done
  {command} --help           # everything else
"""


Port = Annotated[
    int, Parameter(help="Where its API listens, on this machine only; any free port if this one is taken, or 0.")
]
Json = Annotated[bool, Parameter(help="Print JSON, one line for each event.", negative=())]
UNWATCHED_S = 45.0
SECONDS_HELP = (
    "Real time in which to show them, after which it ends; 0 leaves the town out. By default it runs until Ctrl-C."
)
STOPPED = StoryLine(scene="Ctrl-C", what="Stopped before its end.")
INTERRUPTED = 128 + signal.SIGINT


def demo(
    *,
    people: Annotated[int, Parameter(help="Number of users in the town.")] = 300,
    days: Annotated[int, Parameter(help="Number of days to show.")] = 3,
    seconds: Annotated[float | None, Parameter(help=SECONDS_HELP)] = None,
    port: Port = 8080,
    json: Json = False,
) -> int:
    """Show what betimes does: a story of its domains in a few seconds, then a simulated town, with console and API.

    Both are in virtual time. The town is on SQLite in a temporary folder and lives until Ctrl-C, or without a terminal
    for less than a minute; nothing is left behind. Ctrl-C in the town prints a summary and exits with 0; in the
    story it exits with 130.
    """
    if seconds is None and (json or not sys.stdout.isatty()):
        seconds = UNWATCHED_S
    town = TownOptions(people=people, days=days, seconds=seconds, port=port)
    if town.people < 1 or town.days < 1 or (town.seconds is not None and town.seconds < 0):
        raise Invalid("a town needs at least one person and one day, and no less than 0 seconds")
    code = asyncio.run(_tell(town, announce_json if json else _Page().print))
    if not json:
        for line in ("", *ENDING.format(command=_command()).splitlines()):
            say(line)
    return code


async def _tell(options: TownOptions, tell: Callable[[StoryLine], None]) -> int:
    """Tell the story, then the town; return the exit code."""
    from betimes.app.bootstrap import log_warnings
    from betimes.demo.story import tell_story
    from betimes.demo.town import live

    log_warnings()
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with aclosing(_until(stopping, tell_story())) as story:
        lines = story if options.seconds == 0 else live(options, stopping, story)
        async with aclosing(lines):
            in_story = True
            async for line in lines:
                tell(line)
                in_story = in_story and not line.scene.startswith(TOWN_SCENE)
    if stopping.is_set() and in_story:
        tell(STOPPED)
        return INTERRUPTED
    return 0


async def _until(stopping: asyncio.Event, lines: AsyncGenerator[StoryLine, None]) -> AsyncGenerator[StoryLine, None]:
    """Yield lines until the event is set."""
    async with aclosing(lines):
        async for line in lines:
            yield line
            if stopping.is_set():
                return


class _Page:
    """Prints lines for people, with a headline for each scene."""

    def __init__(self) -> None:
        self._console = terminal()
        self._scene = ""

    def print(self, line: StoryLine) -> None:
        if line.scene != self._scene:
            self._scene = line.scene
            self._console.print("")
            self._console.print(text(line.scene, style="bold"))
        self._console.print(_render_line(line))
        if line.why:
            self._console.print(text(f"      {line.why}", style="dim"))


def _command() -> str:
    """Return the command that starts the command line here: in a clone it is not on the path."""
    if shutil.which("betimes"):
        return "betimes"
    started = Path(sys.argv[0])
    return "python -m betimes" if started.name == "__main__.py" else str(started)


def _render_line(line: StoryLine) -> object:
    from rich.text import Text

    reasons = f" · {', '.join(line.reasons)}" if line.reasons else ""
    return Text.assemble(
        "  ",
        text(f"{line.at}  " if line.at else "", "dim"),
        text(line.what),
        ": " if line.answer else "",
        text(line.answer, COLOURS.get(line.answer, "cyan")),
        text(reasons),
    )
