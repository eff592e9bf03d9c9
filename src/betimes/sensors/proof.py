"""The proof that a pushed message comes from its sensor's sender, where it brings no API key.

Secrets are made here, and kept only as far as verifying needs them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from secrets import token_bytes, token_urlsafe
from typing import NamedTuple

from betimes.core.errors import MissingExtra
from betimes.core.instants import Instant
from betimes.core.streams import StreamId
from betimes.domain.deployment import Deployment, SecretBox
from betimes.sensors.model import Auth, SensorState


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


class Proof(NamedTuple):
    """The parts of a request that can prove its sender."""

    headers: Mapping[str, str]
    body: bytes
    token: str | None

    @property
    def bearer_token(self) -> str:
        found = next((value for name, value in self.headers.items() if name.lower() == "authorization"), "")
        kind, _, token = found.partition(" ")
        return token.strip() if kind.lower() == "bearer" else ""


async def is_proven(state: SensorState, stream: StreamId, proof: Proof, now: Instant, deployment: Deployment) -> bool:
    """Return whether the proof is that of one of the sensor's living secrets, or of the sender it trusts."""
    stored = [one.secret for one in state.secrets if one.until_at is None or one.until_at > now]
    match state.definition.auth:
        case "token" if proof.token is not None:
            given = token_digest(proof.token)
            return any(compare_digest(given, digest) for digest in stored)
        case "signature":
            return any(is_signed(deployment.box.open(secret, stream), proof.headers, proof.body) for secret in stored)
        case "oidc" if state.definition.oidc and (token := proof.bearer_token):
            return await deployment.tokens.verify(token, state.definition.oidc, now)
        case _:
            return False
