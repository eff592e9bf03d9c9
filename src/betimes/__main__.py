"""`betimes` and `python -m betimes`: the command line, given the application it works on."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Any

from betimes.core.errors import STATUS


class _Lazily:
    """The wiring, loaded when a command first asks for it."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        from betimes.app.bootstrap import Wired

        found: Callable[..., Any] = getattr(Wired(), name)
        return found


def main() -> None:
    try:
        from betimes.cli.overview import answer_at_once

        if answer := answer_at_once(sys.argv[1:]):
            sys.stdout.write(answer)
            return
        from betimes.cli.main import main as run
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] == "betimes":
            raise
        print(f"the command line needs {error.name}: pip install 'betimes[server]'", file=sys.stderr)
        sys.exit(STATUS["EXTRA_NOT_INSTALLED"][1])
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    code = run(_Lazily())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # everything is done; a late Ctrl-C has nothing to interrupt
    sys.exit(code)


if __name__ == "__main__":
    main()
