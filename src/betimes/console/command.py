"""`betimes console`: open the console of a server that runs, or of one that is started for it."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Mapping
from typing import Annotated, Any
from urllib.error import URLError
from urllib.request import urlopen

from cyclopts import Parameter

from betimes.cli.bootstrap import ServeOptions, Target, current_wiring
from betimes.cli.output import announce
from betimes.core.errors import Invalid

LOCAL = "http://127.0.0.1:8080"
ANSWERS_S = 3.0
Open = Callable[[str], bool]


def console(
    *,
    url: Annotated[str, Parameter(help="Address of a running server.")] = LOCAL,
    db: Annotated[str | None, Parameter(help="Database of the server to start if none answers there.")] = None,
) -> None:
    """Open the console in a browser: of the server at --url if it answers, else of one started here without keys.

    A server started here listens on this machine only, until Ctrl-C. Without a browser, the address is printed.
    """
    address = url.rstrip("/")
    if not address.startswith(("http://", "https://")):
        raise Invalid("an address begins with http:// or https://", (("url", "http://… or https://…"),))
    if is_answering(address):
        open_console(address)
    elif address != LOCAL:
        raise Invalid(f"no betimes answers at {address}; start one with `betimes serve`", (("url", "no answer"),))
    else:
        current_wiring().serve(Target(db=db), ServeOptions(dev=True), _open_when_listening)


def is_answering(address: str) -> bool:
    """Return whether a server answers there."""
    try:
        with urlopen(f"{address}/healthz", timeout=ANSWERS_S) as answer:
            return bool(answer.status == 200)
    except (URLError, TimeoutError, ValueError, OSError):
        return False


def open_console(address: str, open_page: Open = webbrowser.open) -> None:
    """Open the page, or say where it is."""
    page = f"{address}/console"
    opened = open_page(page)
    announce(f"the console is at {page}" if opened else f"no browser could be opened; the console is at {page}")


def _open_when_listening(told: Mapping[str, Any]) -> None:
    open_console(told["url"])
