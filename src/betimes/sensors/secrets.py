"""Secrets of push sensors: made here, kept only as far as verifying needs them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from secrets import token_bytes, token_urlsafe

from betimes.core.errors import MissingExtra
from betimes.core.streams import StreamId
from betimes.domain.deployment import SecretBox
from betimes.sensors.model import Auth


def fresh_secret(auth: Auth) -> str:
    """Return a new secret: a key to sign with, or a token to put into an address."""
    return token_urlsafe(32) if auth == "token" else "whsec_" + b64encode(token_bytes(24)).decode()


def stored_secret(auth: Auth, secret: str, stream: StreamId, box: SecretBox) -> str:
    """Return the form to store: the digest of a token; a signing key sealed, since verifying needs the key itself."""
    return token_digest(secret) if auth == "token" else box.seal(secret, stream)


def token_digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()


def is_signed(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Return whether the headers hold a signature of the body that was made with the secret."""
    try:
        from standardwebhooks import Webhook, WebhookVerificationError
    except ModuleNotFoundError as error:
        raise MissingExtra("signed messages need standardwebhooks: pip install 'betimes[server]'") from error
    try:
        Webhook(secret).verify(body, {name.lower(): value for name, value in headers.items()})
    except (WebhookVerificationError, ValueError):
        return False
    return True
