"""Secrets at rest: AES-256-GCM under keys of the configuration. Importing this needs cryptography.

A stored secret names its key by the first digits of the key's digest, so that keys can be replaced: the first encrypts,
all decrypt. The stream it belongs to is authenticated with it: copied into another's row it cannot be read.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import sha256
from os import urandom

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from betimes.core.errors import Unavailable
from betimes.core.streams import StreamId
from betimes.domain.deployment import SEALED

NONCE_BYTES = 12


class SealedBox:
    """Encrypts with the first of the keys and reads what any of them encrypted, and plain text from before."""

    def __init__(self, keys: Sequence[str]) -> None:
        raw = [b64decode(key, validate=True) for key in keys]
        # By a name that goes with what is sealed, so that keys can be rotated without trying each.
        self._ciphers = {sha256(key).hexdigest()[:8]: AESGCM(key) for key in raw}
        self._first = next(iter(self._ciphers))

    def seal(self, secret: str, stream: StreamId) -> str:
        nonce = urandom(NONCE_BYTES)
        sealed = nonce + self._ciphers[self._first].encrypt(nonce, secret.encode(), _place(stream))
        return f"{SEALED}{self._first}:{b64encode(sealed).decode()}"

    def open(self, stored: str, stream: StreamId) -> str:
        if not stored.startswith(SEALED):
            return stored
        name, _, text = stored.removeprefix(SEALED).partition(":")
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise Unavailable(f"a secret is encrypted with the key {name}, which encryption.keys lacks; add it")
        sealed = b64decode(text)
        try:
            return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _place(stream)).decode()
        except InvalidTag:
            raise Unavailable(f"a secret of {stream.kind} {stream.id} was changed or copied; rotate it") from None

    def is_current(self, stored: str) -> bool:
        return stored.startswith(f"{SEALED}{self._first}:")


def _place(stream: StreamId) -> bytes:
    # Authenticated with it: a secret that is copied to another tenant's row does not open there.
    return "/".join(stream).encode()
