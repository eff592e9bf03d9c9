"""Write the commands and their options into docs/cli.md, between its markers, and the stored `--help`, from the code.

python docs/build_cli.py
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import get_type_hints

from cyclopts import App
from rich.console import Console

from betimes.cli.main import COMMANDS, application
from betimes.cli.options import At, Tenant
from betimes.cli.overview import COLUMNS, HELP

PAGE = Path(__file__).parent / "cli.md"
START, END = "<!-- commands -->\n", "<!-- /commands -->\n"
SHARED = {f"--{name.replace('_', '-')}" for kind in (At, Tenant) for name in kind.__dataclass_fields__}


def commands() -> Iterator[tuple[str, App]]:
    """Every command that does something, by its full name."""
    app = application()
    for name in COMMANDS:
        group = app[name]
        below = [inner for inner in group if not inner.startswith("-")]
        if not below:
            yield name, group
        for inner in below:
            yield f"{name} {inner}", group[inner]


def written() -> str:
    """The commands as Markdown."""
    return "\n".join(_section(name, command) for name, command in commands())


def _section(name: str, command: App) -> str:
    function = command.default_command
    assert function is not None
    sentence = (inspect.getdoc(function) or command.help).split("\n\nParameters\n")[0].replace("\n\n", "\n")
    collected = command.assemble_argument_collection(parse_docstring=True)
    arguments = [found for found in collected if found.show]
    places = [found.name if found.required else f"[{found.name}]" for found in arguments if found.index is not None]
    takes_shared = any(issubclass(kind, At) for kind in get_type_hints(function).values() if isinstance(kind, type))
    own = {name.replace("_", "-") for name in inspect.signature(function).parameters}
    lines = [f"### `{' '.join(['betimes', name, *places])}`", "", sentence, ""]
    told = [found for found in arguments if not (takes_shared and _is_shared(found.name, own))]
    lines += [f"- `{found.name}`: {' '.join(found.parameter.help.split())}" for found in told if found.parameter.help]
    shared = sorted(found.name for found in arguments if found not in told)
    if shared:
        lines.append(f"- {', '.join(f'`{option}`' for option in shared)}: as above")
    return "\n".join(lines) + "\n"


def _is_shared(name: str, own: set[str]) -> bool:
    """Return whether an option is described once for all commands, and not by the command itself."""
    return name in SHARED and name.removeprefix("--") not in own


def page_with(section: str) -> str:
    """The page with this between its markers."""
    text = PAGE.read_text()
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{section}\n{END}{after}"


def overview() -> str:
    """What `betimes --help` prints for a terminal as wide as the stored text."""
    told = Console(file=StringIO(), width=COLUMNS, color_system=None)
    application().help_print([], console=told)
    assert isinstance(told.file, StringIO)
    return told.file.getvalue()


if __name__ == "__main__":
    PAGE.write_text(page_with(written()))
    Path(HELP).write_text(overview())
