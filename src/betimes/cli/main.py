"""The command `betimes`: what commands there are, and what becomes of errors.

Groups are named here with a sentence each and imported when they are used, so that `betimes --help` starts at once.
The exit code of an error is that of its code in `betimes.core.errors.STATUS`; a command line that is not understood
ends with 2.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App

from betimes.cli.wiring import Wiring, use
from betimes.core.errors import STATUS, BetimesError

COMMANDS = {
    # command: (where it is, what it does)
    "serve": ("serve:serve", "Serve the HTTP API, ring alarms and carry out effects."),
    "worker": ("serve:worker", "Ring alarms and carry out effects, without the HTTP API."),
    "tick": ("passes:tick", "Do one bounded pass over everything that is due; says what is still due."),
    "sweep": ("passes:sweep", "Let every score that is due decay."),
    "key": ("keys:app", "API keys."),
    "secrets": ("secrets:app", "Signing secrets in the database: make a key, encrypt them again."),
    "policy": ("policy:app", "The policy in force: show, check, apply."),
    "backtest": ("backtest:backtest", "Say what other policies would have changed in the recorded traffic."),
    "trigger": ("triggers:app", "Triggers: what became of one; cancel one that waits."),
    "schedule": ("schedules:app", "Schedules."),
    "sensor": ("sensors:app", "Sensors."),
    "intent": ("intents:app", "Intents."),
    "notification": ("notifications:app", "Notifications: what became of one; cancel or release one that waits."),
    "effects": ("effects:app", "Effects: what is owed to the outside, and dead letters."),
    "explain": ("history:explain", "Say why a segment was decided as it was."),
    "verify": ("history:verify", "Replay the ledger and compare it with what is stored."),
    "doctor": ("doctor:doctor", "Name rows that cannot be read, and mend them."),
    "prune": ("history:prune", "Replace old history by checkpoints."),
    "export": ("history:export", "Bring a lake of Parquet files up to date with the ledger."),
    "config": ("settings:config", "Check the configuration and show what it comes to."),
    "demo": ("demo:demo", "Show in a minute what betimes does, in virtual time."),
}


def application() -> App:
    from importlib.metadata import version

    app = App(
        name="betimes", help="A durable timing engine: may this happen now, later or never, and why?",
        help_format="plaintext", version=lambda: version("betimes"), result_action="return_value",
    )  # fmt: skip
    for place, (name, (where, help)) in enumerate(COMMANDS.items()):
        app.command(f"betimes.cli.{where}", name=name, help=help, sort_key=place)
    app.register_install_completion_command(sort_key=len(COMMANDS))
    return app


def main(wiring: Wiring, arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    use(wiring)
    try:
        result = application()(words)
    except BetimesError as error:
        from betimes.cli.printing import show_error

        show_error(error, json="--json" in words)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # whoever read us is gone; nothing is left to say
        return 0
    except Exception:  # noqa: BLE001 — a bug
        from betimes.cli.printing import show_bug

        show_bug()
        return STATUS["INTERNAL"][1]
    return result if isinstance(result, int) else 0
