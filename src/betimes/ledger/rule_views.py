"""Rules as people read them: the tables there are, and every rule of the one that a verdict was given by."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal

from betimes.catalogue import DOMAINS
from betimes.core.policies import Policy
from betimes.core.verdicts import ExplainedRule, Rule, RuleTable, Verdict, readable_template
from betimes.domain.declaration import Domain
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.struct_forms import From
from betimes.engine.codecs import Kinds


class ExplainedRuleView(ExplainedRule, JsonView, frozen=True):
    """A rule of the table that a verdict was given by, and what became of it."""


class RuleView(JsonView, frozen=True, kw_only=True):
    """A rule: the values it records, its sentences and its settings."""

    number: int | None
    """Its place in the table, from 1; `null` for a retired rule."""
    rule: Annotated[str, From("name")]
    mode: Literal["enforce", "shadow", "retired"]
    """Under the policy in force: `shadow` is judged and recorded but not enforced; `retired` is not used any more
    and still explains old verdicts."""
    sees: tuple[str, ...]
    """The names of the values it records, which are in braces in its sentences."""
    says: str
    """Its sentence when it matched."""
    passes: str
    """Its sentence when it did not."""
    absent: str
    """Its sentence when there was nothing to check."""
    reads: tuple[str, ...]
    """The policy settings it uses; a name in braces is filled in by the case. An entry of a list is
    addressed by its `name`."""


class RuleTableView(JsonView, frozen=True, kw_only=True):
    """A rule table: its rules in order; the first match decides."""

    table: str
    domain: str
    kinds: tuple[str, ...]
    """The kinds of streams whose verdicts are given by it."""
    otherwise: str
    """The answer when no rule matches, in the domain's spelling."""
    reason: str
    """The reason of that answer."""
    rules: list[RuleView]
    """Retired rules are at the end."""


class RuleTables(JsonView, frozen=True):
    tables: list[RuleTableView]


def explain_rules(kinds: Kinds, verdict: Verdict | None) -> list[ExplainedRuleView]:
    """Return every rule of the table that a verdict was given by, with what became of it."""
    table = kinds.tables.get(verdict.table) if verdict else None
    if verdict is None or table is None:
        return []
    return [derive(ExplainedRuleView, step) for step in table.explain_all(verdict)]


def list_rule_tables(areas: Collection[str], policy: Policy) -> RuleTables:
    """Return the tables of the domains in these areas, under the policy in force."""
    found: dict[str, RuleTableView] = {}
    for domain in DOMAINS:
        if domain.area not in areas:
            continue
        shadowed = domain.shadow_rules(policy[domain.policy]) if domain.policy else ()
        for decider in domain.deciders:
            for table in decider.tables:
                known = found.get(table.name)
                kinds = (*(known.kinds if known else ()), decider.kind)
                found[table.name] = _table_view(table, domain, kinds, shadowed)
    return RuleTables([*found.values()])


def _table_view(
    table: RuleTable[Any], domain: Domain, kinds: tuple[str, ...], shadowed: Collection[str]
) -> RuleTableView:
    answer = table.otherwise.answer
    in_use = [
        _rule_view(rule, number, "shadow" if rule.name in shadowed else "enforce")
        for number, rule in enumerate(table.rules, start=1)
    ]
    return RuleTableView(
        table=table.name,
        domain=domain.area,
        kinds=kinds,
        otherwise=domain.answers.get(answer, answer),
        reason=table.otherwise.reason,
        rules=[*in_use, *(_rule_view(rule, None, "retired") for rule in table.retired)],
    )


def _rule_view(rule: Rule[Any], number: int | None, mode: Literal["enforce", "shadow", "retired"]) -> RuleView:
    said: dict[str, Any] = {name: readable_template(getattr(rule, name)) for name in ("says", "passes", "absent")}
    return derive(RuleView, rule, number=number, mode=mode, **said)
