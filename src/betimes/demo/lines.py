"""The lines that the story and the town give to the command, and the size of the town."""

from __future__ import annotations

from dataclasses import dataclass

TOWN_SCENE = "A town of"
"""How the scene of the town begins."""


@dataclass(frozen=True, kw_only=True)
class StoryLine:
    """A line of the demo: the question and its instant, the answer, and the reason."""

    scene: str
    at: str = ""
    what: str
    answer: str = ""
    reasons: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class TownOptions:
    """The size of the town, and how long it lives."""

    people: int = 300
    days: int = 3
    seconds: float | None = 45.0
    """How long its days take; `None` lets it live on until it is stopped."""
    port: int = 8080
