"""`betimes demo`: a story about everything betimes does, told as it happens."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from betimes.cli.wiring import Told, wired

COLOURS = {
    "ALLOW": "green", "NOW": "green", "fired": "green", "triggered": "green",
    "DEFER": "yellow", "LATER": "yellow", "SKIP": "red", "NEVER": "red", "game over": "red",
}  # fmt: skip
ENDING = """\
Three weeks in a few seconds. Now with your own data, durable:

  {command} serve --dev      # the HTTP API on http://127.0.0.1:8080, with its description at /docs
  {command} --help           # everything else
"""


def demo(*, json: Annotated[bool, Parameter(negative=())] = False) -> None:
    """Show in a few seconds what betimes does, in virtual time and in memory; nothing is left behind.

    Parameters
    ----------
    json
        Tell it in JSON, one line for each thing that happens.
    """
    asyncio.run(_told_in_json() if json else _told())


async def _told_in_json() -> None:
    async for told in wired().demo():
        print(msgspec.json.encode(told).decode())


async def _told() -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    scene = ""
    async for told in wired().demo():
        if told.scene != scene:
            scene = told.scene
            console.print(Text(f"\n{scene}", style="bold"))
        console.print(_line(told))
        if told.why:
            console.print(Text(f"      {told.why}", style="dim"))
    console.print()
    console.print(Text(ENDING.format(command=_command())), end="")


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
        "  ", (f"{told.at}  " if told.at else "", "dim"), told.what, ": " if told.answer else "",
        (told.answer, COLOURS.get(told.answer, "cyan")), reasons,
    )  # fmt: skip
