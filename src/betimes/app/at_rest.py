"""Warnings about data at rest: what a thief of the database could read, logged when a process starts."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

from betimes.app.deployment import EncryptionSettings


def at_rest_warnings(url: str, encryption: EncryptionSettings) -> Iterator[str]:
    """Yield what is kept less safely than it could be, each with the next step."""
    if not encryption.keys:
        yield "signing secrets are stored as plain text; `betimes secrets key` makes a key for encryption.keys"
    scheme, _, rest = url.partition("://")
    file = Path(rest.removeprefix("/"))
    if scheme == "sqlite" and file.is_file() and (mode := stat.S_IMODE(file.stat().st_mode)) & 0o077:
        yield f"other users of this machine can use {file} (mode {mode:o}); chmod 600 it and its -wal and -shm files"
