"""`betimes config`: the configuration, checked."""

from __future__ import annotations

from betimes.cli.bootstrap import Target, current_wiring
from betimes.cli.options import AT, At
from betimes.cli.output import show_json
from betimes.core.errors import Invalid


def config(*, at: At = AT) -> None:
    """Check the configuration and show all effective settings, without secrets."""
    if at.url:
        raise Invalid(
            "this command checks the configuration here; leave --url out", (("url", "not with this command"),)
        )
    show_json(current_wiring().configuration(Target(db=at.db, config=at.config)))
