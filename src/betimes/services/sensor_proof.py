"""How a pushed message proves that it comes from its sensor's sender, where it brings no API key."""

from __future__ import annotations

from collections.abc import Mapping
from hmac import compare_digest
from typing import NamedTuple

from betimes.core.instants import Instant
from betimes.core.streams import StreamId
from betimes.domains.automation.sensor_model import SensorState
from betimes.services.deployment import SecretBox
from betimes.services.secrets import is_signed, token_digest


class Proof(NamedTuple):
    """What a request brings."""

    headers: Mapping[str, str]
    body: bytes
    token: str | None


def is_proven(state: SensorState, stream: StreamId, proof: Proof, now: Instant, box: SecretBox) -> bool:
    """Return whether the proof is that of one of the sensor's living secrets."""
    stored = [one.secret for one in state.secrets if one.until_at is None or one.until_at > now]
    match state.definition.auth:
        case "token" if proof.token is not None:
            given = token_digest(proof.token)
            return any(compare_digest(given, digest) for digest in stored)
        case "signature":
            return any(is_signed(box.open(secret, stream), proof.headers, proof.body) for secret in stored)
        case _:
            return False
