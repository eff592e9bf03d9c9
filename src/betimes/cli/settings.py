"""`betimes config`: the configuration, checked."""

from __future__ import annotations

from betimes.cli.options import At
from betimes.cli.printing import show_json
from betimes.cli.wiring import wired


def config(*, at: At = At()) -> None:  # noqa: B008 — frozen
    """Check the configuration and show what file, environment and defaults come to; secrets are left out."""
    show_json(wired().configuration(at.target))
