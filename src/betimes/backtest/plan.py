"""The plan of a backtest: the window, the tenant, and the policies to try.

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
    """The tenant whose overrides it would be; left out, it is the deployment's policy."""


class SubjectSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A sample of the subjects, the same for the same seed; streams that depend on each other are taken together."""

    subjects: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    """At most so many."""
    share: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    """So much of all, 0 to 1."""
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**31)] | None = None


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
    sample: SubjectSample | None = None
    """Left out: everybody."""

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
            raise Invalid(f"there is no domain {self.domain!r}; known: {known}", (("domain", f"one of {known}"),))
        if self.since_at is not None and self.until_at is not None and self.since_at >= self.until_at:
            raise Invalid("the window is empty: `since` must be before `until`", (("since", "before until"),))
        if not 0 <= self.samples_max <= SAMPLES_MAX:
            raise Invalid(
                f"samples_max is {self.samples_max}; it must be from 0 to {SAMPLES_MAX}",
                (("samples", f"0 to {SAMPLES_MAX}"),),
            )
        if self.sample is not None and (self.sample.subjects is None) == (self.sample.share is None):
            raise Invalid("a sample has a number of subjects or a share of them", (("sample", "subjects or share"),))
        if self.tenant is not None and any(one.tenant not in (None, self.tenant) for one in self.candidates):
            raise Invalid("the overrides of one tenant change nothing for another; leave the other one out")
        self._check_policies(book, deployment or {})

    def _check_policies(self, book: PolicyBook, deployment: Body) -> None:
        """Refuse all that cannot work at once, each with its paths."""
        refused = [(one.name, error) for one in self.candidates if (error := _refusal(book, one, deployment))]
        if not refused:
            return
        if len(self.candidates) == 1:
            # Of one alone the paths need no name in front.
            raise refused[0][1]
        found = tuple((f"{name}: {path}", message) for name, error in refused for path, message in error.problems)
        listed = "; ".join(f"{path}: {message}" for path, message in found)
        raise PolicyInvalid(f"{len(refused)} of the {len(self.candidates)} policies are refused: {listed}", found)


def make_plan(
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
    sample: SubjectSample | None = None,
) -> Plan:
    """Return a plan from policies by name; `sweep` tries values on each, or on the `current` one if none is given."""
    tried = dict(policies) or {"": current or {}}
    if sweep:
        tried = {
            " ".join(filter(None, (name, chosen))): policy
            for name, base in tried.items()
            for chosen, policy in sweep_policies(base, sweep).items()
        }
    candidates = tuple(Candidate(name, dict(policy), overrides_of) for name, policy in tried.items())
    return Plan(
        candidates=candidates,
        since_at=_instant(since),
        until_at=_instant(until),
        tenant=tenant or overrides_of,
        domain=domain,
        samples_max=samples_max,
        sample=sample,
    )


planned = make_plan  # the name under which `betimes` exports it


def _instant(at: str | Instant | None) -> Instant | None:
    return parse(at) if isinstance(at, str) else at


def _refusal(book: PolicyBook, candidate: Candidate, deployment: Body) -> PolicyInvalid | None:
    """Return why a candidate cannot work, if it cannot."""
    try:
        book.effective(*([candidate.policy] if candidate.tenant is None else [deployment, candidate.policy]))
    except PolicyInvalid as error:
        return error
    return None


def sweep_policies(base: Body, settings: Sweep) -> dict[str, dict[str, Any]]:
    """Return a policy for every combination of the values, `notifications.fatigue.hour.cap=6,8,10` or as a mapping."""
    axes = [*settings.items()] if isinstance(settings, Mapping) else [_axis(setting) for setting in settings]
    paths = [path for path, _ in axes]
    if twice := sorted({path for path in paths if paths.count(path) > 1}):
        raise Invalid(f"{twice[0]} is swept twice; say all its values at once", (("sweep", "each setting once"),))
    if empty := [path for path, values in axes if not values]:
        raise Invalid(f"{empty[0]} is swept over no values", (("sweep", "at least one value"),))
    if prod(len(values) for _, values in axes) > CANDIDATES_MAX:
        raise Invalid(
            f"the sweep has more than {CANDIDATES_MAX} combinations", (("sweep", f"at most {CANDIDATES_MAX}"),)
        )
    policies: dict[str, dict[str, Any]] = {}
    for values in product(*(values for _, values in axes)):
        policy: dict[str, Any] = dict(base)
        for (path, _), value in zip(axes, values, strict=True):
            policy = merge(policy, _nest(path.split("."), value))
        chosen = zip(paths, values, strict=True)
        policies[" ".join(f"{path}={value_text(value)}" for path, value in chosen)] = policy
    return policies


def _axis(setting: str) -> tuple[str, list[Any]]:
    path, found, texts = setting.partition("=")
    if not found or not path or not all(path.split(".")) or not texts:
        raise Invalid(
            f"{setting!r} does not say what to sweep; write section.setting=value,value",
            (("sweep", "path=value,value"),),
        )
    return path, [_value(text) for text in texts.split(",")]


def _value(text: str) -> Any:
    """Return a number, true, false or null as JSON reads it, and anything else as a text."""
    try:
        return msgspec.json.decode(text.strip())
    except msgspec.DecodeError:
        return text.strip()


def _nest(path: list[str], value: Any) -> Mapping[str, Any]:
    head, *rest = path
    return {head: _nest(rest, value) if rest else value}


def value_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
