"""The rules of all domains that a backtest needs, collected from their declarations.

A domain says in `DOMAIN.backtest` how it is rehearsed. Nothing here or in the rest of this folder names a domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from betimes.catalogue import DOMAINS
from betimes.core.deciders import Call, Command
from betimes.core.streams import StreamId
from betimes.domain.declaration import RecordedInput

_RULES = tuple(domain.backtest for domain in DOMAINS)

SWEEPS: Mapping[str, type[Command]] = {kind: command for rules in _RULES for kind, command in rules.sweeps.items()}
"""By kind of stream: the command of a sweep."""
STARTS: Mapping[str, type[Command]] = {kind: command for rules in _RULES for kind, command in rules.starts.items()}
"""By kind of stream: the command that announces an at-most-once call."""
INPUTS: Mapping[type[Command], RecordedInput] = {rules.input.command: rules.input for rules in _RULES if rules.input}
"""By command: the value that a provider gave it."""
NOUNS: Mapping[str, str] = {input.provider: input.noun for input in INPUTS.values()}
"""By provider: the word for one value of it."""
PARTS = frozenset[str]().union(*(rules.parts for rules in _RULES))
"""Kinds of streams that are not listed by themselves."""
_RESULTS = tuple(result for rules in _RULES for result in rules.results.items())


def start_of(call: Call, report_to: StreamId) -> type[Command] | None:
    """Return the command that announces the call, if calls of its stream are announced."""
    return STARTS.get(report_to.kind) if call.at_most_once else None


def assumed_result(executor: str) -> Any:
    """Return the result of a call that the recorded traffic does not have."""
    return next((result for prefix, result in _RESULTS if executor.startswith(prefix)), None)
