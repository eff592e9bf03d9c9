"""`betimes secrets …`: keys that signing secrets are encrypted with in the database."""

from __future__ import annotations

from base64 import b64encode
from secrets import token_bytes

from cyclopts import App

from betimes.cli.options import AT, At, on
from betimes.cli.output import say, show

app = App(name="secrets", help="Signing secrets in the database.", help_format="plaintext")


@app.command
def key() -> None:
    """Make a key for encryption.keys; it is printed and stored nowhere."""
    say(b64encode(token_bytes(32)).decode())


@app.command
def reseal(*, at: At = AT) -> None:
    """Encrypt every stored secret with the first of encryption.keys; afterwards the other keys are no longer needed.

    Older segments of the ledger stay as they are until they are pruned: rotate secrets that were plain text.
    """
    show(on(at.target, lambda application: application.reseal_secrets(actor="cli")), json=at.json)
