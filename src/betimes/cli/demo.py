"""`betimes demo`: a story about everything betimes does, told as it happens."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from betimes.cli.bootstrap import Told, TownOptions, current_wiring
from betimes.cli.output import announce_json, say, terminal, text
from betimes.core.errors import Invalid

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
Nothing of it is left. Now with your own data, durable:

  {command} serve --dev      # the HTTP API on http://127.0.0.1:8080, with its description at /docs
  {command} backtest --help  # what another policy would have done
  {command} --help           # everything else
"""


STOPPED = Told(scene="Ctrl-C", what="Stopped before its end.")
INTERRUPTED = 128 + signal.SIGINT


def demo(
    *,
    town: Annotated[TownOptions, Parameter(name="*")] = TownOptions(),  # noqa: B008 — frozen
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Show what betimes does: a story of its domains in a few seconds, then a town at work, with the API over it.

    Both are in virtual time. The town is on SQLite in a temporary folder and ends by itself, or on Ctrl-C; nothing is
    left behind. Ctrl-C in the town tells what its days came to and exits with 0; in the story it exits with 130.

    Parameters
    ----------
    json
        Tell it in JSON, one line for each thing that happens.
    """
    if town.people < 1 or town.days < 1 or town.seconds < 0:
        raise Invalid("a town needs at least one person and one day, and no less than 0 seconds")
    code = asyncio.run(_tell(town, announce_json if json else _Page().print))
    if not json:
        for line in ("", *ENDING.format(command=_command()).splitlines()):
            say(line)
    return code


async def _tell(options: TownOptions, tell: Callable[[Told], None]) -> int:
    """Tell the story, then the town; return the exit code."""
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with aclosing(current_wiring().demo()) as story:
        async for told in story:
            tell(told)
            if stopping.is_set():
                tell(STOPPED)
                return INTERRUPTED
    if options.seconds:
        async for told in current_wiring().town(options, stopping):
            tell(told)
    return 0


class _Page:
    """The same for people, with a headline for each scene."""

    def __init__(self) -> None:
        self._console = terminal()
        self._scene = ""

    def print(self, told: Told) -> None:
        if told.scene != self._scene:
            self._scene = told.scene
            self._console.print("")
            self._console.print(text(told.scene, style="bold"))
        self._console.print(_line(told))
        if told.why:
            self._console.print(text(f"      {told.why}", style="dim"))


def _command() -> str:
    """Return how the command line is started here: from a clone it is not on the path."""
    if shutil.which("betimes"):
        return "betimes"
    started = Path(sys.argv[0])
    return "python -m betimes" if started.name == "__main__.py" else str(started)


def _line(told: Told) -> object:
    from rich.text import Text

    reasons = f" · {', '.join(told.reasons)}" if told.reasons else ""
    return Text.assemble(
        "  ",
        text(f"{told.at}  " if told.at else "", "dim"),
        text(told.what),
        ": " if told.answer else "",
        text(told.answer, COLOURS.get(told.answer, "cyan")),
        text(reasons),
    )
