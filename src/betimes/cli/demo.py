"""`betimes demo`: a story about everything betimes does, told as it happens."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from betimes.cli.printing import terminal, text
from betimes.cli.wiring import Told, TownOptions, wired
from betimes.core.errors import Invalid

COLOURS = {
    "ALLOW": "green", "NOW": "green", "fired": "green", "triggered": "green",
    "DEFER": "yellow", "LATER": "yellow", "SKIP": "red", "NEVER": "red", "game over": "red",
}  # fmt: skip
ENDING = """\
Nothing of it is left. Now with your own data, durable:

  {command} serve --dev      # the HTTP API on http://127.0.0.1:8080, with its description at /docs
  {command} backtest --help  # what another policy would have done
  {command} --help           # everything else
"""


def demo(
    *,
    people: int = 300,
    days: int = 3,
    seconds: float = 45,
    port: int = 8080,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Show what betimes does: a story of its domains in a few seconds, then a town at work, with the API over it.

    Both are in virtual time. The town is on SQLite in a temporary folder and ends by itself, or on Ctrl-C; nothing is
    left behind.

    Parameters
    ----------
    people
        How many live in the town.
    days
        How many of its days are told.
    seconds
        The real time they take; 0 leaves the town out.
    port
        Where its API listens, on this machine only; any free port if this one is taken, or 0.
    json
        Tell it in JSON, one line for each thing that happens.
    """
    if people < 1 or days < 1 or seconds < 0:
        raise Invalid("a town needs at least one person and one day, and no less than 0 seconds")
    options = TownOptions(people=people, days=days, seconds=seconds, port=port)
    asyncio.run(_told_in_json(options) if json else _told(options))


async def _everything(options: TownOptions) -> AsyncIterator[Told]:
    async for told in wired().demo():
        yield told
    if options.seconds:
        async for told in wired().town(options):
            yield told


async def _told_in_json(options: TownOptions) -> None:
    async for told in _everything(options):
        print(msgspec.json.encode(told).decode(), flush=True)


async def _told(options: TownOptions) -> None:
    console = terminal()
    scene = ""
    async for told in _everything(options):
        if told.scene != scene:
            scene = told.scene
            console.print(text(f"\n{scene}", style="bold"))
        console.print(_line(told))
        if told.why:
            console.print(text(f"      {told.why}", style="dim"))
    console.print()
    console.print(text(ENDING.format(command=_command())), end="")


def _command() -> str:
    """How the command line is started here: from a clone it is not on the path."""
    if shutil.which("betimes"):
        return "betimes"
    started = Path(sys.argv[0])
    return "python -m betimes" if started.name == "__main__.py" else str(started)


def _line(told: Told) -> object:
    from rich.text import Text

    reasons = f" · {', '.join(told.reasons)}" if told.reasons else ""
    return Text.assemble(
        "  ", text(f"{told.at}  " if told.at else "", "dim"), text(told.what), ": " if told.answer else "",
        text(told.answer, COLOURS.get(told.answer, "cyan")), text(reasons),
    )  # fmt: skip
