"""Reasons are a closed list per kind: what rules answer is on it, and a verdict with another is not written."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import betimes
from betimes.catalogue import DOMAINS
from betimes.core.deciders import Decider, Decision, View
from betimes.core.errors import Fault
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.core.streams import StreamId
from betimes.core.verdicts import Verdict
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.virtual_clock import VirtualClock
from betimes.stores.memory.store import MemoryStore
from betimes.testing.sample.decide import TALLY
from betimes.testing.sample.model import Count, Counted

JUDGES = [decider for domain in DOMAINS for decider in domain.deciders if decider.tables]


@pytest.mark.parametrize("decider", JUDGES, ids=lambda decider: decider.kind)
def test_every_kind_that_judges_says_what_its_reasons_mean(decider: Decider[Any]) -> None:
    assert decider.reasons
    assert all(decider.reasons.values())
    assert {table.otherwise.reason for table in decider.tables} <= decider.reasons.keys()


def reasons_in_hits() -> set[str]:
    """Return the reasons that the domains' sources give to a `Hit`."""
    found: set[str] = set()
    folders = [Path(betimes.__path__[0], domain.package.rpartition(".")[2]) for domain in DOMAINS]
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Hit":
                found |= {str(arg.value) for arg in node.args[1:2] if isinstance(arg, ast.Constant)}
    return found


def test_what_rules_answer_is_on_a_list() -> None:
    found = reasons_in_hits()
    assert len(found) > 30
    assert found <= {code for decider in JUDGES for code in decider.reasons}


async def test_a_verdict_with_a_reason_nobody_knows_is_not_written() -> None:
    def decide(view: View[Any], command: Any, policy: Policy, now: Instant) -> Decision:
        return Decision((Counted(command.visitor),), verdict=Verdict("NOW", (command.visitor,)))

    tally = replace(TALLY, decide=decide, reasons={"KNOWN": "it is known"})
    async with Engine(MemoryStore(VirtualClock()), (tally,), name="one") as engine:
        stream = StreamId("t", "tally", "1")
        known = await engine.submit(Submission(stream=stream, command=Count("KNOWN")))
        assert known.version == 1
        with pytest.raises(Fault, match=r"UNHEARD_OF.*KNOWN"):
            await engine.submit(Submission(stream=stream, command=Count("UNHEARD_OF")))
        assert (await engine.store.history(stream, 0, 10))[1][-1].version == 1
