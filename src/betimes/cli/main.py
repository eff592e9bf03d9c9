"""The command `betimes`: what commands there are, and what becomes of errors.

Groups are named here with a sentence each and imported when they are used, so that `betimes --help` starts at once.
The exit code of an error is that of its code in `betimes.core.errors.STATUS`; a command line that is not understood
ends with 2.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App

from betimes.cli.bootstrap import Wiring, use
from betimes.core.errors import STATUS, BetimesError

COMMANDS = {
    # command: (where it is, what it does)
    "serve": ("cli.serve:serve", "Serve the HTTP API, ring alarms and carry out effects."),
    "worker": ("cli.serve:worker", "Ring alarms and carry out effects, without the HTTP API."),
    "tick": ("cli.passes:tick", "Do one bounded pass over everything that is due; says what is still due."),
    "sweep": ("scores.commands:sweep", "Let every score that is due decay."),
    "key": ("admin.key_commands:app", "API keys."),
    "secrets": ("admin.secret_commands:app", "Signing secrets in the database: make a key, encrypt them again."),
    "policy": ("admin.policy_commands:app", "The policy in force: show, check, apply."),
    "backtest": ("backtest.commands:backtest", "Say what other policies would have changed in the recorded traffic."),
    "trigger": ("runs.commands:app", "Triggers: what became of one; cancel one that waits."),
    "notification": (
        "notifications.commands:app",
        "Notifications: what became of one; cancel or release one that waits.",
    ),
    "intent": ("intents.commands:app", "Intents."),
    "schedule": ("schedules.commands:app", "Schedules."),
    "sensor": ("sensors.commands:app", "Sensors."),
    "effects": ("ledger.effect_commands:app", "Effects: what is owed to the outside, and dead letters."),
    "explain": ("ledger.commands:explain", "Say why a segment was decided as it was."),
    "verify": ("ledger.commands:verify", "Replay the ledger and compare it with what is stored."),
    "doctor": ("ledger.doctor_command:doctor", "Name rows that cannot be read, and mend them."),
    "prune": ("ledger.commands:prune", "Replace old history by checkpoints."),
    "export": ("ledger.commands:export", "Bring a lake of Parquet files up to date with the ledger."),
    "config": ("cli.configuration:config", "Check the configuration and show what it comes to."),
    "demo": ("demo.command:demo", "Show in a minute what betimes does, in virtual time."),
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
        app.command(f"betimes.{where}", name=name, help=help, sort_key=place)
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
    except Exception:  # noqa: BLE001 — a bug
        from betimes.cli.output import show_bug

        show_bug()
        return STATUS["INTERNAL"][1]
    return result if isinstance(result, int) else 0
