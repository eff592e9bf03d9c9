"""Changed answers of a report as callers ask for and see them."""

from __future__ import annotations

import msgspec

from betimes.backtest.report import CandidateReport, Flip
from betimes.backtest.summary import parting_rule
from betimes.catalogue import Area, area_of
from betimes.domain.json_view import JsonView
from betimes.domain.paging import UnreadableRow
from betimes.domain.service import TraceStep
from betimes.engine.codecs import Kinds


class FlipFilters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    candidate: str | None = None
    domain: Area | None = None
    before: str | None = None
    """The recorded answer."""
    after: str | None = None
    """The answer under the candidate."""
    id: str | None = None
    """Of the user, the account and the like."""

    def fits(self, candidate: str, flip: Flip) -> bool:
        return (
            self.candidate in (None, candidate)
            and self.domain in (None, area_of(flip.kind))
            and self.before in (None, flip.before.outcome)
            and self.after in (None, flip.after.outcome)
            and self.id in (None, flip.id)
        )

    def count(self, candidate: CandidateReport) -> int:
        """Return how many answers changed that fit, by what the report counts of all."""
        if self.candidate not in (None, candidate.name):
            return 0
        return sum(
            line.count
            for line in candidate.flips
            if self.domain in (None, line.domain)
            and self.before in (None, line.before)
            and self.after in (None, line.after)
        )


class FlipView(Flip, frozen=True, kw_only=True):
    candidate: str
    parting_rule: str | None
    """The rule at which the two traces part."""
    says_before: list[str]
    """The sentences of the rules in the recorded trace."""
    says_after: list[str]


def flip_view(kinds: Kinds, candidate: str, flip: Flip) -> FlipView:
    """Return a changed answer with the words of its rules."""
    return FlipView(
        **msgspec.structs.asdict(flip),
        candidate=candidate,
        parting_rule=parting_rule(flip),
        says_before=_sentences(kinds, flip.kind, flip.before.trace),
        says_after=_sentences(kinds, flip.kind, flip.after.trace),
    )


def _sentences(kinds: Kinds, kind: str, trace: list[TraceStep]) -> list[str]:
    # A report names no table: it is the one of the kind that has all the rules.
    names = {step.rule for step in trace}
    tables = kinds.by_name[kind].decider.tables if kind in kinds.by_name else ()
    table = next((one for one in tables if names <= one.by_name.keys()), None)
    return [table.describe(step.rule, step.reason, step.values) if table else "" for step in trace]


class FlipPage(JsonView, frozen=True, kw_only=True):
    items: list[FlipView]
    next_cursor: str | None
    kept: int
    """Matching changed answers that the report keeps, which the pages list."""
    total: int | None
    """All matching changed answers, kept or not; `null` for one `id`, by which the report does not count."""
    unreadable: tuple[UnreadableRow, ...] = ()
    """None: a report is read as a whole."""
