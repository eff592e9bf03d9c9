"""Commands in this process: everything but starting it, which takes a second each time."""

from __future__ import annotations

import io
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from betimes.app.bootstrap import Wired
from betimes.cli.main import main


class Said:
    """What a command said, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.out)

    @property
    def problem(self) -> Any:
        return msgspec.json.decode(self.err)


def command(*words: str, folder: Path, stdin: str = "", **environment: str) -> Said:
    """Run a command in a folder and an environment, to its end."""
    out, err = io.StringIO(), io.StringIO()
    with (
        chdir(folder),
        patch("sys.path", [*sys.path]),
        patch.dict("os.environ", environment),
        patch("sys.stdin", io.StringIO(stdin)),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            code = main(Wired(), words)
        except SystemExit as ended:
            code = int(ended.code or 0)
    for name in [name for name, module in sys.modules.items() if _is_in(folder, module)]:
        del sys.modules[name]  # an application named by --app is loaded anew each time
    return Said(code, out.getvalue(), err.getvalue())


def _is_in(folder: Path, module: object) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and Path(file).parent == folder
