"""The names that filters may ask for, from the closed registries of the domains; any other is an error.

A filter by a name that nothing can have would give an empty answer, which reads as "there is none".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from typing import Literal, TypeAlias, get_args, get_origin, get_type_hints

from betimes.catalogue import DOMAIN_OF, DOMAINS
from betimes.core.checks import Findings
from betimes.core.errors import Invalid
from betimes.core.names import find_near_names
from betimes.core.verdicts import Answer
from betimes.domain.declaration import Domain
from betimes.domain.paging import wrong_parameter

Filter: TypeAlias = Literal["kind", "kinds", "outcome", "reason"]
NAMES_CHARS_MAX = 380
"""Of the names there are, in a message; `GET /v1/meta` has them all."""


@cache
def known_names(of: Filter) -> tuple[str, ...]:
    """Return every name that a filter may have."""
    match of:
        case "kind" | "kinds":
            return tuple(sorted(DOMAIN_OF))
        case "outcome":
            return tuple(sorted({name for domain in DOMAINS for name in outcomes_in(domain)}))
        case "reason":
            return tuple(sorted({name for domain in DOMAINS for name in reasons_in(domain)}))


def outcomes_in(domain: Domain) -> Iterable[str]:
    """Yield the outcomes that a domain decides on, in its own spelling."""
    yield from domain.outcomes or (domain.answers.get(answer, answer) for answer in get_args(Answer))


def reasons_in(domain: Domain) -> Iterable[str]:
    """Yield the reasons that a domain gives."""
    yield from domain.outcome_reasons
    for decider in domain.deciders:
        yield from decider.reasons


def words_in(domain: Domain) -> dict[str, str]:
    """Return what the codes of a domain say in words: outcomes and statuses, and what each reason means."""
    meanings = {code: text for decider in domain.deciders for code, text in decider.reasons.items()}
    return {**meanings, **domain.words}


@cache
def known_statuses(kind: str) -> tuple[str, ...]:
    """Return the statuses of a kind of stream; none where policies may make new ones."""
    domain = DOMAIN_OF[kind]
    if kind in domain.statuses:
        return domain.statuses[kind]
    [state] = [decider.state for decider in domain.deciders if decider.kind == kind]
    declared = get_type_hints(state).get("status")
    return get_args(declared) if get_origin(declared) is Literal else ()


def split_names(text: str | None) -> tuple[str, ...]:
    """Return names that stand in a filter with commas between them."""
    return () if text is None else tuple(text.split(","))


def check_names(
    *,
    kind: str | None = None,
    kinds: Collection[str] = (),
    outcomes: Collection[str] = (),
    reason: str | None = None,
    status: str | None = None,
) -> None:
    """Raise `Invalid` that names every filter by something that nothing can be, and what there is."""
    found = Findings()
    given: tuple[tuple[Filter, Iterable[str | None]], ...] = (
        ("kind", (kind,)),
        ("kinds", kinds),
        ("outcome", outcomes),
        ("reason", (reason,)),
    )
    for of, values in given:
        for value in values:
            if value is not None and value not in known_names(of):
                found.add(f"query.{of}", spell_unknown(of.removesuffix("s"), value, known_names(of)))
    if status is not None and kind in DOMAIN_OF and not _is_status(status, known_statuses(kind)):
        found.add("query.status", spell_unknown(f"status of {kind}", status, known_statuses(kind)))
    if found.total:
        raise found.refusal("parameter")


def unknown_name(of: str, value: str, known: tuple[str, ...]) -> Invalid:
    """Return what is raised about a filter by a name that is none of these."""
    return wrong_parameter(of, spell_unknown(of, value, known))


def _is_status(status: str, known: tuple[str, ...]) -> bool:
    """Return whether it is one of these, also with what an index adds behind it: sources, and who may take it."""
    return not known or any(status == name or status.startswith((f"{name}~", f"{name}.")) for name in known)


def spell_unknown(what: str, value: str, known: tuple[str, ...]) -> str:
    """Say that a name is none of these, those that may be meant first."""
    near = find_near_names(value[:40], known, count=3, likeness=0.5)
    names = ", ".join([*near, *(name for name in known if name not in near)])  # those that may be meant come first
    if len(names) > NAMES_CHARS_MAX:
        names = names[:NAMES_CHARS_MAX].rpartition(", ")[0] + ", …"
    return f"no such {what}: {value[:40]}; known: {names}"
