"""What a process wrote down about itself: what it asked, what it was answered, and which calls it made.

A line reaches the kernel before the process goes on, so a killed process leaves everything it knew. A last line that
was cut off was never written: nobody was told.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec

from betimes.core.errors import BetimesError
from betimes.core.segments import Recorded
from betimes.core.streams import EffectId
from betimes.testing.sample.model import GateCommands


class Asked(msgspec.Struct, frozen=True, tag=True):
    """Written before a command is submitted."""

    key: str
    tenant: str
    gate: str
    command: GateCommands


class Answered(msgspec.Struct, frozen=True, tag=True):
    """Written after the engine answered: from here on the process may have told somebody."""

    key: str
    tenant: str
    segment: str
    verdict: str
    replayed: bool

    @classmethod
    def of(cls, key: str, recorded: Recorded) -> Answered:
        return cls(key, recorded.stream.tenant, recorded.segment_id, verdict_text(recorded), recorded.replayed)

    def agrees_with(self, other: Answered) -> bool:
        return (self.tenant, self.segment, self.verdict) == (other.tenant, other.segment, other.verdict)


class Failed(msgspec.Struct, frozen=True, tag=True):
    """Written after the engine raised."""

    key: str
    code: str
    message: str

    @classmethod
    def of(cls, key: str, error: BetimesError) -> Failed:
        return cls(key, error.code, str(error))


class Called(msgspec.Struct, frozen=True, tag=True):
    """Written by a handler before it does anything else."""

    tenant: str
    effect: str

    @classmethod
    def of(cls, effect: EffectId) -> Called:
        return cls(effect.tenant, effect.handle)


Line: TypeAlias = Asked | Answered | Failed | Called
Kind = TypeVar("Kind", Asked, Answered, Failed, Called)
_lines = msgspec.json.Decoder(Line)
SUFFIX = ".journal"


class Journal:
    """One process's file, which only grows."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = os.open(folder / f"{name}{SUFFIX}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, line: Line) -> None:
        os.write(self._file, msgspec.json.encode(line) + b"\n")

    def close(self) -> None:
        os.close(self._file)


class Journals:
    """What all processes wrote into one folder."""

    def __init__(self, folder: Path, name: str = "*") -> None:
        self._lines = [line for path in sorted(folder.glob(f"{name}{SUFFIX}")) for line in _read(path)]

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [line for line in self._lines if isinstance(line, kind)]


def _read(path: Path) -> Iterator[Line]:
    *whole, _ = path.read_bytes().split(b"\n")
    return map(_lines.decode, whole)


def verdict_text(recorded: Recorded) -> str:
    verdict = recorded.verdict
    return "" if verdict is None else f"{verdict.answer} {' '.join(verdict.reasons)}"
