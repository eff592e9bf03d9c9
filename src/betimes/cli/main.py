"""The command `betimes`: its commands, and the exit codes of errors.

Commands of domains are collected from their declarations, the others are named here, with a sentence each. Their
modules are imported when they are used, so that `betimes --help` loads no service.
The exit code of an error is that of its code in `betimes.core.errors.STATUS`; a command line that is not understood
ends with 2.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App

from betimes.catalogue import DOMAINS
from betimes.cli.bootstrap import Wiring, asked_server, use
from betimes.core.errors import STATUS, BetimesError, Unavailable


def _collect_commands() -> dict[str, tuple[str, str]]:
    """Return the commands and groups of commands that domains announce, each with where it is and its help."""
    return {
        name: (f"{domain.package}.commands:{name}", help)
        for domain in DOMAINS
        for name, help in domain.commands.items()
    }


COMMANDS = {
    # command: (where it is, what it does)
    "status": ("betimes.ledger.status_command:status", "Show what was decided, what is due and what is stuck."),
    "why": ("betimes.ledger.why_command:why", "Explain a decision about a segment, an event, a key or a user."),
    "day": ("betimes.ledger.day_command:day", "Show the day of a user or an account."),
    "next": ("betimes.ledger.next_command:next_", "Show what comes next, soonest first."),
    "serve": ("betimes.cli.serve:serve", "Serve the HTTP API, ring alarms and carry out effects."),
    "console": ("betimes.console.command:console", "Open the console in a browser."),
    "worker": ("betimes.cli.serve:worker", "Ring alarms and carry out effects, without the HTTP API."),
    "tick": ("betimes.cli.passes:tick", "Do one bounded pass over everything due, and report what is left."),
    "key": ("betimes.admin.key_commands:app", "API keys."),
    "secrets": (
        "betimes.admin.secret_commands:app",
        "Signing secrets in the database: make an encryption key, re-encrypt them.",
    ),
    "hold": ("betimes.admin.hold_commands:hold", "Hold everything for a while, without losing anything."),
    "policy": ("betimes.admin.policy_commands:app", "The policy in force: show, check, apply."),
    "backtest": (
        "betimes.backtest.commands:backtest",
        "Show what other policies would have changed in the recorded traffic.",
    ),
    **_collect_commands(),
    "effects": ("betimes.ledger.effect_commands:app", "Effects: pending calls and dead letters."),
    "ledger": ("betimes.ledger.commands:ledger", "List what was decided, newest first."),
    "explain": ("betimes.ledger.commands:explain", "Explain the decision of a segment, rule by rule."),
    "verify": ("betimes.ledger.commands:verify", "Replay the ledger and compare it with what is stored."),
    "doctor": ("betimes.ledger.doctor_command:doctor", "List rows that cannot be read, and repair them."),
    "tally": ("betimes.ledger.tally_commands:app", "Counts of outcomes: show progress, count again."),
    "prune": ("betimes.ledger.commands:prune", "Replace old history by checkpoints."),
    "export": ("betimes.ledger.commands:export", "Export the ledger to Parquet files, incrementally."),
    "config": ("betimes.cli.configuration:config", "Check the configuration and show all effective settings."),
    "demo": ("betimes.demo.command:demo", "Show in a minute what betimes does, in virtual time."),
}


def application() -> App:
    from importlib.metadata import version

    app = App(
        name="betimes",
        help="A durable timing engine: may this happen now, later or never, and why?",
        help_format="plaintext",
        version=lambda: version("betimes"),
        result_action="return_value",
    )
    for place, (name, (where, help)) in enumerate(COMMANDS.items()):
        app.command(where, name=name, help=help, sort_key=place)
    app.register_install_completion_command(sort_key=len(COMMANDS))
    return app


def main(wiring: Wiring, arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    use(wiring)
    try:
        result = application()(words)
    except BetimesError as error:
        from betimes.cli.output import show_error

        show_error(error, json="--json" in words)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # whoever read us is gone; nothing is left to say
        return 0
    except Exception as error:  # noqa: BLE001 — a bug
        from betimes.cli.output import show_bug, show_error

        if address := asked_server():  # whatever an answer holds besides its types, it is no bug of ours
            odd = Unavailable(
                f"{address} answers with something that cannot be shown here "
                f"({type(error).__name__}: {error}); does it run another version of betimes?"
            )
            show_error(odd, json="--json" in words)
            return odd.exit_code
        show_bug()
        return STATUS["INTERNAL"][1]
    return result if isinstance(result, int) else 0
