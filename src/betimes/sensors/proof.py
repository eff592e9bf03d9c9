"""The proof that a pushed message comes from its sensor's sender, where it brings no API key."""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest
from typing import NamedTuple

from betimes.core.instants import Instant
from betimes.core.streams import StreamId
from betimes.domain.deployment import Deployment
from betimes.sensors.model import SensorState
from betimes.sensors.secrets import is_signed, token_digest


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
