"""Answers: rich tables for people on a terminal, JSON for programs.

Answers go to standard output, everything else (progress, errors) to standard error, so that `--json` can be piped.

Data is printed as it is, and this is the one door: no other module of the command line prints. Consoles made by
`terminal` take nothing in a string for markup or emoji codes, in cells of tables neither, and show control characters
and marks of direction by their numbers (`core.visible`) instead of sending them on; so does `text`, for styled text,
and `as_json`.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from betimes.core.checks import list_problems
from betimes.core.errors import BetimesError, Invalid, Refused
from betimes.core.instants import render
from betimes.core.visible import visible, visible_json
from betimes.core.zones import to_local

if TYPE_CHECKING:  # what a command does not use need not be loaded
    from rich.console import Console
    from rich.text import Text

_encoder = msgspec.json.Encoder(decimal_format="number")
_PIPE_WIDTH = 10_000
"""Columns of what is no terminal: nothing is folded there."""


def as_json(value: Any, *, indent: int = 2) -> str:
    return visible_json(msgspec.json.format(_encoder.encode(value), indent=indent).decode())


def show_json(value: Any) -> None:
    print(as_json(value))


def announce_json(value: Any) -> None:
    """Print an answer on one line, at once."""
    print(as_json(value, indent=-1), flush=True)


def announce(sentence: str) -> None:
    """Print a sentence at once; rich is not loaded for it."""
    print(visible(sentence), flush=True)


def show(value: Any, *, json: bool, columns: Sequence[str] = (), empty: str = "nothing") -> None:
    """An answer: a list as a table with these columns, anything else field by field."""
    if json:
        show_json(value)
        return
    plain = msgspec.to_builtins(value, builtin_types=(datetime,))
    if isinstance(plain, Mapping) and isinstance(plain.get("items"), list):
        put(_table(plain["items"], columns) if plain["items"] else empty)
        for row in plain.get("unreadable", ()):
            put(f"{row['row']} cannot be shown: {row['unreadable']}")
        if cursor := plain.get("next_cursor"):
            put(f"There is more: --cursor {cursor}")
    elif isinstance(plain, Mapping):
        put(_fields(plain))
    else:
        put(str(plain))


def show_sentences(value: Any, sentences: Iterable[str], *, json: bool) -> None:
    """An answer: in sentences, a line each, or as data."""
    if json:
        show_json(value)
        return
    for sentence in sentences:
        put(sentence)


def say(text: str) -> None:
    """A sentence on standard output."""
    put(text)


def clear_screen() -> None:
    """Empty the screen for what is printed next; anywhere else but on a terminal, do nothing."""
    if sys.stdout.isatty():
        terminal().clear()


def _table(items: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Any:
    from rich.table import Table

    names = columns or list(items[0])
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    for item in items:
        table.add_row(*(_cell(item.get(name)) for name in names))
    return table


def _fields(plain: Mapping[str, Any]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in plain.items():
        table.add_row(name, _cell(value))
    return table


def _cell(value: Any) -> str:
    match value:
        case None:
            return "–"
        case str():
            return value
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case bool() | int() | float():
            return str(value)
        case _:
            return visible_json(_encoder.encode(value).decode())


def text(data: str, style: str = "") -> Text:
    """Return data as text that is printed as it is, its control characters made visible."""
    from rich.text import Text

    return Text(visible(data), style)


def terminal(*, stderr: bool = False, soft_wrap: bool = True, width: int | None = None) -> Console:
    """Return a console that shows every string as it is."""
    return _console_type()(stderr=stderr, soft_wrap=soft_wrap, width=width, highlight=False, markup=False, emoji=False)


@cache
def _console_type() -> type[Console]:
    from rich.console import Console
    from rich.text import Text

    class PlainConsole(Console):
        """Strings come here from everywhere: printed alone, as cells and as headers of tables."""

        def render_str(self, text: str, *, style: Any = "", **_: Any) -> Text:
            return Text(visible(text), style)

    return PlainConsole


def put(what: Any) -> None:
    """Print a string or a table: folded to a terminal's width; anywhere else whole, and without padding at the end."""
    if sys.stdout.isatty():
        terminal(soft_wrap=isinstance(what, str)).print(what)
        return
    console = terminal(soft_wrap=isinstance(what, str), width=_PIPE_WIDTH)
    with console.capture() as captured:
        console.print(what)
    sys.stdout.write("\n".join(line.rstrip(" ") for line in captured.get().split("\n")))
    sys.stdout.flush()


def count_noun(count: int, one: str, many: str = "") -> str:
    """Return so many of a thing: 1 dead letter, 2 dead letters."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def spell_moment(at: datetime, timezone: str) -> str:
    """Return an instant to the second as the zone shows it, with its offset."""
    return to_local(timezone, at).isoformat(timespec="seconds").replace("+00:00", "Z")


def moment(at: int | None) -> str | None:
    return None if at is None else render(at)


# -- errors


def problem(error: BetimesError) -> dict[str, Any]:
    """An error as data, with the names of the HTTP API."""
    code = error.reason if isinstance(error, Refused) else error.code
    found = error.problems if isinstance(error, Invalid) else ()
    errors = [{"path": path, "message": message} for path, message in found]
    return {"code": code, "detail": str(error), "errors": errors, "exit_code": error.exit_code}


def show_error(error: BetimesError, *, json: bool) -> None:
    told = problem(error)
    if json:
        print(as_json(told), file=sys.stderr)
        return
    from rich.text import Text

    console = terminal(stderr=True)
    detail = told["detail"]
    if isinstance(error, Invalid) and error.problems:  # they follow on lines of their own
        detail = detail.replace(f": {list_problems(error.problems, error.total)}", "")
    console.print(Text.assemble(text(told["code"], "bold red"), " ", text(detail)))
    for found in told["errors"]:
        console.print(text(f"  {found['path']}: {found['message']}"))


def show_bug() -> None:
    """Tell the exception that is handled, in full."""
    print(*map(visible, traceback.format_exc().splitlines()), sep="\n", file=sys.stderr)


# -- progress


class Bar(Protocol):
    """Told how far something is."""

    def __call__(self, done: int, note: str = "") -> None: ...


@contextmanager
def shares(what: str, *, json: bool) -> Iterator[Callable[[float], None]]:
    """A progress bar on standard error, shown only in a terminal."""
    if json or not sys.stderr.isatty():
        yield lambda share: None
        return
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=terminal(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=1.0)
        yield lambda share: bars.update(task, completed=share)


@contextmanager
def progress(what: str, *, json: bool) -> Iterator[Bar]:
    """A moving line on standard error, when a person is there to see it."""
    if json or not sys.stderr.isatty():
        yield lambda done, note="": None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=terminal(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=None, note="")
        yield lambda done, note="": bars.update(task, completed=done, note=note or f"{done:,}")
