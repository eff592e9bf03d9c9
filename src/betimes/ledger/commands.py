"""Commands about the ledger: `ledger`, `explain`, `verify`, `prune`, `export`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from cyclopts import Parameter

from betimes.cli.bootstrap import Application, current_wiring
from betimes.cli.options import AT, PAGING, TENANT, At, Paging, Tenant, on
from betimes.cli.output import count_noun, progress, say, show, show_json, show_sentences, spell_moment
from betimes.core.errors import STATUS, Invalid
from betimes.core.segments import Head
from betimes.core.streams import parse_segment_handle
from betimes.core.verdicts import RuleOutcome
from betimes.engine.audit import parse_head
from betimes.engine.pruning import PruneReport, Retention
from betimes.engine.pruning import prune as pruned
from betimes.engine.replay import LedgerFinding, VerifyReport
from betimes.engine.replay import verify as verified
from betimes.ledger.effect_commands import ask_ledger
from betimes.ledger.effects import EffectView
from betimes.ledger.rule_views import ExplainedRuleView
from betimes.ledger.service import Order, SegmentView
from betimes.ledger.verifications import record_verification
from betimes.ledger.why_sentences import write_note


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LedgerOptions:
    """The filters of `betimes ledger`, named like those of the service."""

    kind: str | None = None
    """Only streams of this kind, such as inbox, account or schedule."""
    id: str | None = None
    """Only this stream, with --kind."""
    event_type: str | None = None
    """Only segments with an event of this type."""
    command_type: str | None = None
    """Only segments of a command of this type, such as Wake."""
    key: str | None = None
    """Only what this idempotency key or event id led to."""
    correlation_id: str | None = None
    """Only segments with this correlation id."""
    since: datetime | None = None
    """Not before this instant."""
    until: datetime | None = None
    """Before this instant."""


def ledger(
    *,
    where: LedgerOptions = LedgerOptions(),  # noqa: B008 — frozen
    oldest_first: Annotated[bool, Parameter(negative=())] = False,
    paging: Paging = PAGING,
    at: Tenant = TENANT,
) -> None:
    """List what was decided, newest first.

    Parameters
    ----------
    oldest_first
        In commit order, instead of newest first.
    """
    order: Order = "asc" if oldest_first else "desc"
    page = ask_ledger(at, lambda ledger: ledger.segments(vars(where), order=order, **vars(paging)))
    if at.json:
        show_json(page)
        return
    with_note = any(segment.note for segment in page.items)
    lines = [_ledger_line(segment, with_note=with_note) for segment in page.items]
    show({"items": lines, "next_cursor": page.next_cursor}, json=False, empty="No segments.")


def _ledger_line(segment: SegmentView, *, with_note: bool) -> dict[str, Any]:
    """Return a segment as a line of a table."""
    verdict = segment.verdict
    return {
        "at": segment.at,
        "segment_id": segment.segment_id,
        "command": segment.command["type"] if segment.command else None,
        "events": ", ".join(event["type"] for event in segment.events),
        "answer": verdict.outcome if verdict else None,
        "reasons": ", ".join(verdict.reasons) if verdict else None,
        "actor": segment.actor or None,
        # Most have none, and a narrow table can be read.
        **({"note": segment.note or None} if with_note else {}),
    }


def explain(segment_id: str, /, *, at: Tenant = TENANT) -> None:
    """Explain the decision of a segment: every rule that was checked, with the values it saw.

    Parameters
    ----------
    segment_id
        Its id, as answers show it: kind:id:version.
    """
    try:  # a malformed one is a mistake in the command, not a missing segment
        parse_segment_handle(at.tenant, segment_id)
    except Invalid as error:
        raise Invalid(f"{error}; try betimes why {segment_id[:80]}", error.problems) from None
    view = ask_ledger(at, lambda ledger: ledger.explain(segment_id))
    lines = [
        view.summary,
        *write_note(view),
        *map(_rule_line, view.rules),
        *map(_effect_line, view.effects),
        f"  policy {view.policy}",
    ]
    show_sentences(view, lines, json=at.json)


def _effect_line(effect: EffectView) -> str:
    """Return the progress of an effect, on one line."""
    tried = f", {count_noun(effect.attempts, 'attempt')}" if effect.attempts else ""
    error = f", last error: {effect.last_error}" if effect.last_error else ""
    next_at = effect.next_attempt_at if error else None
    again = f", next attempt at {spell_moment(next_at, 'UTC')}" if next_at else ""
    return f"  effect {effect.effect_id}: {effect.effect_kind} {effect.target}, {effect.status}{tried}{error}{again}"


_MARKS: dict[RuleOutcome, str] = {"passed": " ", "bound": "→", "shadow": "→", "not_reached": "·"}


def _rule_line(rule: ExplainedRuleView) -> str:
    shadow = " (shadow)" if rule.outcome == "shadow" else ""
    said = rule.sentence or ", ".join(f"{name}={value}" for name, value in rule.values.items())
    return f"  {_MARKS[rule.outcome]} {rule.rule}{shadow}: {said}"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class VerifyOptions:
    """The options of `betimes verify`."""

    kind: str | None = None
    """Only streams of this kind."""
    head: str | None = None
    """The head that an earlier verify printed: the database must not be shorter."""
    record: Annotated[bool, Parameter(negative="--no-record")] = True
    """Record the run on the ledger; --no-record adds nothing, for a copy that must not change. Opening a database of
    an older version migrates it in any case.
    """


def verify(*, tenant: str | None = None, of: VerifyOptions = VerifyOptions(), at: At = AT) -> int:  # noqa: B008 — frozen
    """Replay the ledger and compare it with what is stored, byte for byte; exits with 65 when something differs.

    The run and its result are recorded on the ledger, behind the verified history.

    Parameters
    ----------
    tenant
        Only this tenant's streams.
    """
    expected = parse_head(of.head) if of.head else None
    if expected and not tenant is of.kind is None:
        raise Invalid("a head covers all streams; leave out --tenant and --kind", (("head", "not with a filter"),))
    with progress("verifying", json=at.json) as bar:
        report = on(at.target, lambda application: _verify(application, tenant, of, expected, bar))
    head_text = str(report.head) if report.head else None
    view = {"sound": report.is_sound, "streams": report.streams, "segments": report.segments, "head": head_text}
    _tell({**view, "notes": report.notes}, report.findings, at)
    return 0 if report.is_sound else STATUS["MALFORMED_ROW"][1]


async def _verify(
    application: Application, tenant: str | None, of: VerifyOptions, expected: Head | None, bar: Callable[..., None]
) -> VerifyReport:
    engine = application.engine
    if of.kind is not None and of.kind not in engine.kinds.names:
        known = f"one of {', '.join(engine.kinds.names)}"
        raise Invalid(f"there is no kind {of.kind!r}", (("kind", known),))

    def tell(report: VerifyReport) -> None:
        bar(report.streams, f"{report.streams:,} streams, {report.segments:,} segments")

    report = await verified(
        engine.store,
        engine.kinds,
        tenant=tenant,
        kind=of.kind,
        progress=tell,
        expected=expected,
        key_retention_s=engine.settings.key_retention_s,
    )
    if of.record:
        await record_verification(engine, report, tenant=tenant, kind=of.kind, actor="cli")
    return report


def prune(
    *, history_days: float | None = None, effects_days: float = 7.0, tenant: str | None = None, at: At = AT
) -> None:
    """Replace old history by one checkpoint per stream, and remove expired keys and calls that ended long ago.

    Parameters
    ----------
    history_days
        Segments older than this many days are replaced. Default: history is kept for ever.
    effects_days
        Calls that ended longer ago are removed; dead letters are kept.
    tenant
        Only this tenant's history.
    """
    retention = Retention(history_days=history_days, effects_days=effects_days)

    async def work(application: Application) -> PruneReport:
        return await pruned(application.engine.store, application.engine.kinds, retention, tenant=tenant)

    with progress("pruning", json=at.json):
        report = on(at.local(over_http="POST /v1/prune"), work)
    view = {"streams": report.streams, "segments": report.segments, "forgotten": report.forgotten}
    _tell(view, report.findings, at)


def _tell(view: dict[str, Any], findings: list[LedgerFinding], at: At) -> None:
    told = [
        {
            "stream": str(found.stream) if found.stream else None,
            "row": found.row or None,
            "version": found.version,
            "what": found.what,
        }
        for found in findings
    ]
    if at.json:
        show_json({**view, "findings": told})
        return
    show(view, json=False)
    for found in findings:
        say(str(found))


def export(path: str, /, *, at: At = AT) -> None:
    """Export the ledger to Parquet files, incrementally; run it again at any time.

    Parameters
    ----------
    path
        A folder, or a place such as s3://bucket/prefix.
    """
    with progress("exporting", json=at.json) as bar:

        async def work(application: Application) -> Any:
            return await current_wiring().export(application, path, lambda report: bar(report.segments))

        report = on(at.target, work)
    show(report, json=at.json)
