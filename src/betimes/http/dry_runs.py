"""Dry runs over HTTP: their headers, their scopes, and the envelope of the answer.

`Betimes-Dry-Run: true` on anything that writes has it decided by the same turn and not committed. `Betimes-At` asks for
a later instant, `Betimes-Policy` for overrides of the policy in force. No route knows of it: its services reach an
engine whose commits are forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from betimes.core.checks import refusal
from betimes.core.errors import Invalid
from betimes.core.instants import DAY, Instant, parse
from betimes.core.policies import Body
from betimes.core.scopes import ADMIN, allows, areas_of
from betimes.domain.service import Caller
from betimes.http.problems import HttpProblem
from betimes.http.routes import SEGMENT_HEADER, Answer, Route, ServedApplication, TrialApplication

MEDIA_TYPE = "application/vnd.betimes.dry-run+json"
HEADERS = DRY_RUN, AT, POLICY = "betimes-dry-run", "betimes-at", "betimes-policy"
AHEAD_MAX = 366 * DAY
DRAFT_BYTES_MAX = 8_192
NO_PASS = "a tick has no dry run; a sweep has one of its own"


class DryRunAnswer(msgspec.Struct, frozen=True):
    """The answer to a dry run, which is always 200; what a write would be refused with is a problem as ever."""

    status: int
    """The status that the write would answer with."""
    body: Any
    """The body that the write would answer with; `null` if none."""
    dry_run: Any
    """The segments, effects and alarm that the write would leave."""


class Trial(msgspec.Struct, frozen=True):
    """A dry run that was requested."""

    at: Instant | None = None
    draft: Body | None = None


def trial_of(route: Route, headers: Mapping[str, str]) -> Trial | None:
    """Return the dry run that the headers of a write ask for, if they do; raise `Invalid` for what makes no sense."""
    if not route.is_recorded:
        return None
    asked = headers.get(DRY_RUN, "false")
    found: list[tuple[str, str]] = []
    if asked == "false":
        # Whoever forgets one header must not write what they wanted to try.
        found += [(f"header.{name}", "only with Betimes-Dry-Run: true") for name in (AT, POLICY) if name in headers]
        if found:
            raise refusal("header", found)
        return None
    if asked != "true":
        found.append((f"header.{DRY_RUN}", "true or false"))
    if not route.can_be_tried:
        found.append((f"header.{DRY_RUN}", NO_PASS))
    trial = Trial(_read_instant(headers.get(AT), found), _read_draft(headers.get(POLICY), found))
    if found:
        raise refusal("header", found)
    return trial


def _read_instant(text: str | None, found: list[tuple[str, str]]) -> Instant | None:
    if text is None:
        return None
    try:
        return parse(text)
    except Invalid as error:
        found.append((f"header.{AT}", str(error)))
        return None


def _read_draft(text: str | None, found: list[tuple[str, str]]) -> Body | None:
    if text is None:
        return None
    if len(text) > DRAFT_BYTES_MAX:
        found.append((f"header.{POLICY}", f"at most {DRAFT_BYTES_MAX:,} bytes"))
        return None
    try:
        draft: Body = msgspec.json.decode(text.encode("latin-1"), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        found.append((f"header.{POLICY}", "a JSON object of overrides, as PUT /v1/policy takes them, in ASCII"))
        return None
    return draft


def scope_to_try(scope: str) -> str:
    """Return the scope that a dry run needs where the write needs this one."""
    return f"{scope.removesuffix(':write')}:read" if scope.endswith(":write") else scope


def caller_who_tries(caller: Caller, scopes: tuple[str, ...]) -> tuple[Caller, tuple[str, ...]]:
    """Return the caller with the scopes to write what they may read: nothing of it will be written."""
    writes = tuple(f"{area}:write" for area in sorted(areas_of(scopes, "read")))
    wider = tuple(dict.fromkeys((*scopes, *writes)))
    return msgspec.structs.replace(caller, scopes=wider), wider


async def open_trial(
    application: ServedApplication, trial: Trial, caller: Caller, scopes: tuple[str, ...]
) -> TrialApplication:
    """Return the application as the request shall see it; raise for an instant that is past or too far away."""
    if trial.draft is not None and not allows(scopes, ADMIN):
        raise HttpProblem(403, "MISSING_SCOPE", "Trying another policy needs the scope admin.")
    now = await application.engine.store.now()
    if trial.at is not None and not now <= trial.at <= now + AHEAD_MAX:
        message = "before now; past decisions are on the ledger" if trial.at < now else "at most 366 days ahead"
        raise refusal("header", [(f"header.{AT}", message)])
    return application.dry_run(caller, at=trial.at, policy=trial.draft)


async def wrap_answer(application: TrialApplication, answer: Answer) -> Answer:
    """Return the envelope of an answer: what the write would say, and what would be written."""
    body = DryRunAnswer(answer.status, answer.body, await application.report())
    # Nobody was let in or out, and nothing was written.
    untrue = ("Set-Cookie", SEGMENT_HEADER)
    headers = {name: value for name, value in answer.headers.items() if name not in untrue}
    return Answer(body, 200, headers, MEDIA_TYPE)
