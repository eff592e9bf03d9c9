"""Signatures of outbound webhooks, by the rules of Standard Webhooks.

Every secret signs: while a secret is replaced, receivers that know only the old or only the new one both accept.
A secret never appears in an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from betimes.core.errors import MissingExtra
from betimes.core.instants import Instant, epoch_down
from betimes.outbound.failures import BadRequest, NoSecret

SECRETS_MAX = 2


def signature_headers(secrets: Sequence[str], id: str, at: Instant, body: bytes) -> dict[str, str]:
    """Return the three headers a receiver verifies; raise `NoSecret` or `BadRequest` if that cannot be done."""
    if not 1 <= len(secrets) <= SECRETS_MAX:
        raise NoSecret(f"a webhook is signed with 1 to {SECRETS_MAX} secrets, the tenant has {len(secrets)}")
    if not id or not id.isascii() or not id.isprintable() or " " in id:
        raise BadRequest("a webhook's id must be printable ASCII without spaces")
    moment = datetime.fromtimestamp(epoch_down(at), UTC)
    # While a secret is rotated both sign, so that a receiver that knows either can verify.
    signatures = [_signature(secret, id, moment, body) for secret in secrets]
    return {"webhook-id": id, "webhook-timestamp": str(epoch_down(at)), "webhook-signature": " ".join(signatures)}


def _signature(secret: str, id: str, moment: datetime, body: bytes) -> str:
    try:
        from standardwebhooks.webhooks import Webhook
    except ModuleNotFoundError as error:
        raise MissingExtra("signed webhooks need standardwebhooks: pip install 'betimes[server]'") from error
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise BadRequest("a webhook's body must be UTF-8") from None
    try:
        signer = Webhook(secret)
    except Exception:  # noqa: BLE001 — whatever is wrong with a secret, what was raised may quote it
        raise NoSecret("a webhook secret is whsec_ and base64; the tenant has one that is not") from None
    return signer.sign(id, moment, text)
