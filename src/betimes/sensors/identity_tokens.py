"""Identity tokens of senders (OpenID Connect), such as Pub/Sub puts on what it pushes.

A token is a JWT that its issuer signed for one audience. The configuration lists the issuers to trust and where their
public keys are; keys are read from a file, or from an address through the client that outbound calls use, and cached
for an hour. A token with an unknown key makes us read them again, at most once a minute: so an issuer can replace its
keys, and nobody can make us ask for them again and again. Verifying needs PyJWT and cryptography.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

import msgspec

from betimes.core.errors import MissingExtra, Unavailable
from betimes.core.instants import Instant, epoch_down
from betimes.outbound.failures import WebhookFailed
from betimes.sensors.model import OidcProof

GOOGLE = "https://accounts.google.com"
ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384")
KINDS = ("RSA", "EC")
TOKEN_CHARS_MAX = 16_384
LEEWAY_S = 60
KEPT_S = 3_600.0
REREAD_S = 60.0
"""The least time between two readings of an issuer's keys."""
Fetch: TypeAlias = Callable[[str], Awaitable[bytes]]


class IssuerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An issuer that signs identity tokens."""

    keys: str
    """Where the public keys are, as a JSON Web Key Set: an address, or a file."""


DEFAULT_ISSUERS: Mapping[str, IssuerSettings] = {
    GOOGLE: IssuerSettings(keys="https://www.googleapis.com/oauth2/v3/certs")
}


class _KeySet(msgspec.Struct, frozen=True):
    keys: list[dict[str, Any]]


class IssuerKeys:
    """The public keys of one issuer, by id."""

    def __init__(self, place: str, fetch: Fetch) -> None:
        self._place = place
        self._fetch = fetch
        self._turn = asyncio.Lock()
        self._keys: dict[str, Any] = {}
        self._read_s = -inf

    async def key(self, id: str) -> Any:
        """Return the key of this id, or `None`; raise `Unavailable` if there are no keys and none can be read."""
        async with self._turn:
            age_s = monotonic() - self._read_s
            # An unknown id may be a new key, or made up: the keys are read again, but not for every such token.
            if age_s > (KEPT_S if id in self._keys else REREAD_S):
                await self._read()
            return self._keys.get(id)

    async def _read(self) -> None:
        self._read_s = monotonic()
        try:
            is_address = "://" in self._place
            raw = await (self._fetch(self._place) if is_address else asyncio.to_thread(Path(self._place).read_bytes))
            self._keys = _parse_keys(raw)
        except (WebhookFailed, OSError, msgspec.MsgspecError) as error:
            # Keys that were read before hold until they can be read again.
            if not self._keys:
                self._read_s = -inf
                raise Unavailable(f"the keys of the issuer cannot be read: {error}") from error


def _parse_keys(raw: bytes) -> dict[str, Any]:
    """Return the public keys of a key set by their ids; those of another kind are left out."""
    jwt = _jwt()
    found = {}
    for one in msgspec.json.decode(raw, type=_KeySet).keys:
        if one.get("kty") in KINDS and one.get("kid"):
            try:
                found[str(one["kid"])] = jwt.PyJWK(one)
            except jwt.PyJWTError:
                continue
    return found


class IdentityTokens:
    """Verifies tokens of the issuers that the configuration trusts."""

    def __init__(self, issuers: Mapping[str, IssuerSettings], fetch: Fetch) -> None:
        trusted = {**DEFAULT_ISSUERS, **issuers}
        self._keys = {issuer: IssuerKeys(settings.keys, fetch) for issuer, settings in trusted.items()}

    def trusts(self, issuer: str) -> bool:
        return issuer in self._keys

    async def verify(self, token: str, wanted: OidcProof, now: Instant) -> bool:
        """Return whether the token is the issuer's, for this audience and sender, and alive."""
        jwt, keys = _jwt(), self._keys.get(wanted.issuer)
        if keys is None or len(token) > TOKEN_CHARS_MAX:
            return False
        try:
            header = jwt.get_unverified_header(token)
            key = await keys.key(str(header.get("kid", "")))
            if key is None or header.get("alg") not in ALGORITHMS:
                return False
            # By the algorithm of the key: a token that could choose would choose one it can forge. And by the store's
            # time, so instants are checked below.
            claims = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                audience=wanted.audience,
                issuer=wanted.issuer,
                options={
                    "require": ["exp", "iat", "aud", "iss"],
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                },
            )
        except jwt.PyJWTError:
            return False
        return _is_alive(claims, epoch_down(now)) and _is_sender(claims, wanted)


def _is_alive(claims: Mapping[str, Any], now_s: int) -> bool:
    """Return whether it is between the instants of the token, by the store's time."""
    starts = [claims.get("iat"), claims.get("nbf", 0)]
    if not all(isinstance(at, int | float) for at in (claims.get("exp"), *starts)):
        return False
    return bool(max(starts) - LEEWAY_S <= now_s < claims["exp"] + LEEWAY_S)


def _is_sender(claims: Mapping[str, Any], wanted: OidcProof) -> bool:
    if wanted.email is None:
        return True
    return claims.get("email") == wanted.email and claims.get("email_verified") is True


def _jwt() -> Any:
    try:
        import cryptography  # noqa: F401 — PyJWT verifies signatures with it
        import jwt
    except ModuleNotFoundError as error:
        raise MissingExtra("identity tokens need PyJWT: pip install 'betimes[server,tokens]'") from error
    return jwt
