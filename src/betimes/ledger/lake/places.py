"""Places for a lake: a local folder, or anything fsspec has a name for.

    PATH/checkpoint.json                                       how far the ledger was exported
    PATH/batches/batch-000000000001/batch.json                 what a batch holds; the last of its files to be written
    PATH/batches/batch-000000000001/TABLE/date=2026-01-05/part.parquet

Locally a batch appears by one rename. Where there is no such thing it is complete when its `batch.json` is there.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import msgspec

from betimes.core.errors import MissingExtra

CHECKPOINT = "checkpoint.json"
MANIFEST = "batch.json"
ASIDE_S = 86_400


class LakeBatch(msgspec.Struct, frozen=True):
    """A stretch of the ledger: its first and last position, and the number of rows of each table."""

    first: int
    last: int
    rows: dict[str, int] = {}
    unreadable: int = 0
    """Of its segments, those that could not be read."""


def batch_name(first: int) -> str:
    return f"batch-{first:012d}"


class LakePlace(Protocol):
    """The interface of a place where a lake is kept."""

    def position(self) -> int:
        """The last position of the ledger that is in the lake."""

    def batch(self, first: int) -> LakeBatch | None:
        """The complete batch that starts there, if there is one."""

    def publish(self, folder: Path, batch: LakeBatch) -> bool:
        """Publish a batch atomically; return `False` if another process has done so in the meantime."""

    def advance(self, position: int) -> None:
        """Move the checkpoint on."""

    def local(self) -> Path | None:
        """The folder, if it can be read by its path."""


class LocalPlace:
    """A folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._batches = path / "batches"
        self._batches.mkdir(parents=True, exist_ok=True)
        self._tidy()

    def position(self) -> int:
        return _position(self._read(self._path / CHECKPOINT))

    def batch(self, first: int) -> LakeBatch | None:
        body = self._read(self._batches / batch_name(first) / MANIFEST)
        return msgspec.json.decode(body, type=LakeBatch) if body else None

    def publish(self, folder: Path, batch: LakeBatch) -> bool:
        (folder / MANIFEST).write_bytes(msgspec.json.encode(batch))
        aside = self._path / f".batch-{uuid4().hex}"
        shutil.copytree(folder, aside)
        # Before the rename: a batch that is there after a crash must be whole.
        _sync(aside)
        try:
            aside.rename(self._batches / batch_name(batch.first))
        except OSError:
            # A folder that is there already is the same batch by another export; anything else is an error.
            if self.batch(batch.first) is None:
                raise
            shutil.rmtree(aside)
            return False
        _sync_folder(self._batches)
        return True

    def advance(self, position: int) -> None:
        aside = self._path / f".{CHECKPOINT}-{uuid4().hex}"
        aside.write_bytes(msgspec.json.encode({"position": position}))
        _sync(aside)
        aside.replace(self._path / CHECKPOINT)

    def local(self) -> Path:
        return self._path

    def _tidy(self) -> None:
        """Remove what exports that were killed left aside, long enough ago that none of them is at work."""
        for aside in self._path.glob(".*-*"):
            if time.time() - aside.stat().st_mtime > ASIDE_S:
                shutil.rmtree(aside, ignore_errors=True) if aside.is_dir() else aside.unlink(missing_ok=True)

    def _read(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


class FsspecPlace:
    """A bucket, or whatever else a URL names."""

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs  # type: ignore[import-untyped]
        except ModuleNotFoundError as error:
            raise MissingExtra(
                f"{url} needs fsspec and a library for its kind: pip install 'betimes[lake]', and s3fs, gcsfs or adlfs"
            ) from error
        self._fs: Any
        self._fs, self._root = url_to_fs(url)

    def position(self) -> int:
        return _position(self._read(f"{self._root}/{CHECKPOINT}"))

    def batch(self, first: int) -> LakeBatch | None:
        body = self._read(f"{self._root}/batches/{batch_name(first)}/{MANIFEST}")
        return msgspec.json.decode(body, type=LakeBatch) if body else None

    def publish(self, folder: Path, batch: LakeBatch) -> bool:
        """The same stretch has the same files, so one that was broken off is written over."""
        if self.batch(batch.first):
            return False
        target = f"{self._root}/batches/{batch_name(batch.first)}"
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            self._fs.makedirs(f"{target}/{file.relative_to(folder).parent}", exist_ok=True)
            self._fs.put_file(str(file), f"{target}/{file.relative_to(folder)}")
        # The manifest last: a batch without one does not count, and is written over.
        self._fs.pipe_file(f"{target}/{MANIFEST}", msgspec.json.encode(batch))
        return True

    def advance(self, position: int) -> None:
        self._fs.pipe_file(f"{self._root}/{CHECKPOINT}", msgspec.json.encode({"position": position}))

    def local(self) -> None:
        return None

    def _read(self, path: str) -> bytes | None:
        try:
            return bytes(self._fs.cat_file(path))
        except FileNotFoundError:
            return None


def place_of(path: str) -> LakePlace:
    return FsspecPlace(path) if "://" in path else LocalPlace(Path(path))


def _position(body: bytes | None) -> int:
    return int(msgspec.json.decode(body)["position"]) if body else 0


def _sync(path: Path) -> None:
    """Onto the disk, with everything below."""
    for file in (path, *path.rglob("*")) if path.is_dir() else (path,):
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
