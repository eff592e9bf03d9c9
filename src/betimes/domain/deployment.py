"""The deployment: this process's rules for what tenants save, which are URLs, names of handlers, and secrets.

Services are given it; without one everything is taken as it comes and secrets are kept as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import msgspec

from betimes.core.errors import Unavailable
from betimes.core.instants import Instant
from betimes.core.streams import StreamId
from betimes.sensors.model import OidcProof

SEALED = "sealed:"
"""The prefix of an encrypted secret: `sealed:<key>:<text>`."""


class UrlFinding(msgspec.Struct, frozen=True):
    """Findings about a URL before it is called; both are empty if there is nothing to say."""

    problem: str = ""
    """Why it can never be called."""
    warning: str = ""
    """Why this process would not call it."""


CheckUrl: TypeAlias = Callable[[str], UrlFinding]
PermitsHandler: TypeAlias = Callable[[str, str], bool]
"""Whether a tenant may name a handler or an evaluator."""


class SecretBox(Protocol):
    """Encrypts the secrets of a stream before they are recorded, and reads them again."""

    def seal(self, secret: str, stream: StreamId) -> str: ...

    def open(self, stored: str, stream: StreamId) -> str:
        """Return the secret; raise `Unavailable` if it was sealed with a key that is not here."""

    def is_current(self, stored: str) -> bool:
        """Return whether it is stored as `seal` would store it now."""


class PlainBox:
    """Keeps secrets as they are."""

    def seal(self, secret: str, stream: StreamId) -> str:
        return secret

    def open(self, stored: str, stream: StreamId) -> str:
        if stored.startswith(SEALED):
            raise Unavailable(f"a secret of {stream.kind} {stream.id} is encrypted; set encryption.keys to read it")
        return stored

    def is_current(self, stored: str) -> bool:
        return not stored.startswith(SEALED)


class TokenVerifier(Protocol):
    """Knows the issuers of identity tokens that the configuration trusts."""

    def trusts(self, issuer: str) -> bool: ...

    async def verify(self, token: str, wanted: OidcProof, now: Instant) -> bool: ...


class NoTokens:
    """Trusts no issuer."""

    def trusts(self, issuer: str) -> bool:
        return False

    async def verify(self, token: str, wanted: OidcProof, now: Instant) -> bool:
        return False


class Deployment(msgspec.Struct, frozen=True):
    """The checks that services do before something is saved."""

    check_url: CheckUrl = lambda url: UrlFinding()
    permits_handler: PermitsHandler = lambda tenant, name: True
    box: SecretBox = PlainBox()
    tokens: TokenVerifier = NoTokens()
