"""What a backtest is asked: over which window, of whom, and which policies are tried.

A candidate takes the place of the deployment's policy, or of one tenant's overrides, for the whole window. Everything
else that was in force then, tenants' own overrides included, stays as it was recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Annotated, Any, TypeAlias

import msgspec

from betimes.core.errors import Invalid, PolicyInvalid
from betimes.core.instants import Instant, parse
from betimes.core.policies import Body, PolicyBook, merge

CANDIDATES_MAX = 20
SAMPLES_MAX = 10_000
Sweep: TypeAlias = Sequence[str] | Mapping[str, Sequence[Any]]
"""Settings to try values of: as texts, `path=value,value`, or as paths with their values."""


class Candidate(msgspec.Struct, frozen=True, omit_defaults=True):
    """A policy to try."""

    name: str
    policy: dict[str, Any]
    tenant: str | None = None
    """Whose overrides it would be; left out, it is the deployment's policy."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One backtest."""

    candidates: tuple[Candidate, ...]
    since_at: Instant | None = None
    """Left out: from the first segment on."""
    until_at: Instant | None = None
    tenant: str | None = None
    domain: str | None = None
    """Only this domain is reported; all are rehearsed, since they cause each other."""
    samples_max: Annotated[int, msgspec.Meta(ge=0, le=SAMPLES_MAX)] = 100
    """Changed answers of each kind that are shown with both traces; all are counted."""

    def check(self, book: PolicyBook, domains: Sequence[str], deployment: Body | None = None) -> None:
        """Refuse what cannot be run, before anything runs; overrides must work on the deployment's policy."""
        if not any(candidate.name or candidate.policy for candidate in self.candidates):
            raise Invalid("a backtest needs a policy to try", (("candidates", "at least one"),))
        if len(self.candidates) > CANDIDATES_MAX:
            raise Invalid(
                f"{len(self.candidates)} policies are too many for one backtest; at most {CANDIDATES_MAX} fit",
                (("candidates", f"at most {CANDIDATES_MAX}"),),
            )
        names = [candidate.name for candidate in self.candidates]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise Invalid(f"two candidates are called {twice[0]!r}; give each a name of its own")
        if self.domain is not None and self.domain not in domains:
            known = ", ".join(domains)
            raise Invalid(f"there is no domain {self.domain!r}; known are {known}", (("domain", f"one of {known}"),))
        if self.since_at is not None and self.until_at is not None and self.since_at >= self.until_at:
            raise Invalid("the window is empty: `since` must be before `until`", (("since", "before until"),))
        for candidate in self.candidates:
            _check_policy(book, candidate, deployment or {}, alone=len(self.candidates) == 1)


def planned(
    policies: Mapping[str, Body],
    *,
    sweep: Sweep = (),
    current: Body | None = None,
    overrides_of: str | None = None,
    since: str | Instant | None = None,
    until: str | Instant | None = None,
    tenant: str | None = None,
    domain: str | None = None,
    samples_max: int = 100,
) -> Plan:
    """A plan from policies by name; `sweep` tries values on each of them, or on the `current` one if none is given."""
    tried = dict(policies) or {"": current or {}}
    if sweep:
        tried = {
            " ".join(filter(None, (name if len(tried) > 1 else "", chosen))): policy
            for name, base in tried.items()
            for chosen, policy in swept(base, sweep).items()
        }
    candidates = tuple(Candidate(name, dict(policy), overrides_of) for name, policy in tried.items())
    return Plan(
        candidates=candidates, since_at=_instant(since), until_at=_instant(until), tenant=tenant or overrides_of,
        domain=domain, samples_max=samples_max,
    )  # fmt: skip


def _instant(at: str | Instant | None) -> Instant | None:
    return parse(at) if isinstance(at, str) else at


def _check_policy(book: PolicyBook, candidate: Candidate, deployment: Body, *, alone: bool) -> None:
    try:
        book.effective(*([candidate.policy] if candidate.tenant is None else [deployment, candidate.policy]))
    except PolicyInvalid as error:
        if alone:
            raise
        found = tuple((f"{candidate.name}: {path}", message) for path, message in error.problems)
        raise PolicyInvalid(f"{candidate.name}: {error}", found) from error


def swept(base: Body, settings: Sweep) -> dict[str, dict[str, Any]]:
    """One policy for every combination of the values, `notifications.fatigue.hour.cap=6,8,10` or as a mapping."""
    axes = [*settings.items()] if isinstance(settings, Mapping) else [_axis(setting) for setting in settings]
    if prod(len(values) for _, values in axes) > CANDIDATES_MAX:
        raise Invalid(
            f"the sweep has more than {CANDIDATES_MAX} combinations", (("sweep", f"at most {CANDIDATES_MAX}"),)
        )
    policies: dict[str, dict[str, Any]] = {}
    for values in product(*(values for _, values in axes)):
        policy: dict[str, Any] = dict(base)
        for (path, _), value in zip(axes, values, strict=True):
            policy = merge(policy, _nested(path.split("."), value))
        chosen = zip((path for path, _ in axes), values, strict=True)
        policies[" ".join(f"{path}={_shown(value)}" for path, value in chosen)] = policy
    return policies


def _axis(setting: str) -> tuple[str, list[Any]]:
    path, found, texts = setting.partition("=")
    if not found or not path or not all(path.split(".")) or not texts:
        raise Invalid(
            f"{setting!r} does not say what to sweep; say section.setting=value,value", (("sweep", "path=value,value"),)
        )
    return path, [_value(text) for text in texts.split(",")]


def _value(text: str) -> Any:
    """A number, true, false or null as JSON reads it; anything else is a text."""
    try:
        return msgspec.json.decode(text.strip())
    except msgspec.DecodeError:
        return text.strip()


def _nested(path: list[str], value: Any) -> Mapping[str, Any]:
    head, *rest = path
    return {head: _nested(rest, value) if rest else value}


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
