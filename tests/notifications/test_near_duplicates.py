"""What near-duplicate detection catches, measured on labelled pairs, as the documentation says."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.notifications.fingerprints import distance, fingerprint, mask_numbers, normalise_text
from tests.notifications.near_duplicates import DIFFERENT, SAME, Pairs

DOCS = Path(__file__).parents[2] / "docs" / "notifications.md"
SETTINGS = [(width, mask) for mask in (False, True) for width in (1, 2, 3)]
DISTANCE_MAX = 3


def caught(pairs: Pairs, width: int, mask: bool) -> int:
    return sum(_distance(*pair, width, mask) <= DISTANCE_MAX for pair in pairs)


def _distance(one: str, other: str, width: int, mask: bool) -> int:
    prints = [fingerprint(mask_numbers(text) if mask else text, 4, width) for text in map(normalise_text, (one, other))]
    assert prints[0] is not None
    assert prints[1] is not None
    return distance(prints[0], prints[1])


def row(name: str, pairs: Pairs) -> str:
    counts = " | ".join(str(caught(pairs, *setting)) for setting in SETTINGS)
    return f"| {name} | {len(pairs)} | {counts} |"


def measured() -> tuple[list[float], list[float]]:
    """Precision and recall of each setting."""
    hits = [sum(caught(pairs, *setting) for pairs in SAME.values()) for setting in SETTINGS]
    wrong = [sum(caught(pairs, *setting) for pairs in DIFFERENT.values()) for setting in SETTINGS]
    total = sum(map(len, SAME.values()))
    return [h / (h + w) for h, w in zip(hits, wrong, strict=True)], [h / total for h in hits]


def table() -> str:
    precision, recall = measured()
    lines = [row(name, pairs) for group in (SAME, DIFFERENT) for name, pairs in group.items()]
    lines.append("| **precision** | | " + " | ".join(f"{value:.2f}" for value in precision) + " |")
    lines.append("| **recall** | | " + " | ".join(f"{value:.2f}" for value in recall) + " |")
    return "\n".join(lines)


def test_the_documentation_says_what_is_measured() -> None:
    assert table() in DOCS.read_text(), f"docs/notifications.md should have\n{table()}"


@pytest.mark.parametrize("name", ["unrelated", "one template, other names"])
def test_by_default_no_two_different_messages_are_taken_for_one(name: str) -> None:
    assert caught(DIFFERENT[name], 3, mask=False) == 0


def test_by_default_nothing_in_the_set_is_suppressed_wrongly() -> None:
    precision, _ = measured()
    assert precision[SETTINGS.index((3, False))] == 1.0
