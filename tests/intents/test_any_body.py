"""Whatever is sent as a definition is accepted or answered with problems; nothing else ever happens."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.app import Betimes
from betimes.core.errors import Invalid
from betimes.intents.check_times import check_after_failure
from betimes.intents.model import ChangeIntent, Defined, DefineIntent
from betimes.intents.policy import IntentsPolicy
from tests.intents.stories import MINUTE, NINE, body, made, nothing

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 2**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
    st.sampled_from(
        [
            "UTC",
            "Europe/Berlin",
            "0 8 * * *",
            "*/5 * * * * *",
            "2026-01-06T08:00:00",
            "NVDA < 130",
            "once",
            "2026-01-06T08:00:00Z",
            "0001-01-01T00:00:00",
            "9999-12-31T23:59:59",
            "<",
            "any_holding_change",
        ]
    ),
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=6,
)
SCHEDULE = st.dictionaries(
    st.sampled_from(["cron", "interval_minutes", "trigger_at", "check_interval_minutes", "timezone", "x"]), LEAVES
)
CONDITION = st.dictionaries(
    st.sampled_from(
        ["expression", "ticker", "metric", "operator", "value", "threshold_hours", "cooldown_hours", "fire_mode"]
    ),
    LEAVES,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "intent_id": JSON,
        "user_id": JSON,
        "enabled": JSON,
        "expires_at": JSON,
        "max_executions": JSON,
        "metadata": JSON,
        "schedule": SCHEDULE | JSON,
        "condition": CONDITION | JSON,
        "action_type": JSON,
        "action_context": JSON,
        "action_priority": JSON,
        "gate": JSON,
        "version": JSON,
        "colour": JSON,
    },
)
KINDS = st.sampled_from(["cron", "interval", "once", "price", "silence", "portfolio"])


def answered(reply: Any, changed: bool) -> None:
    assert isinstance(reply, Defined)
    assert bool(reply.problems) != bool(reply.version)
    assert not (reply.problems and changed)
    assert all(problem.path and problem.message for problem in reply.problems)


@given(KINDS, FIELDS)
def test_any_definition_is_accepted_or_told_what_is_wrong(kind: str, fields: dict[str, Any]) -> None:
    scenario = nothing().when(DefineIntent(body(kind, **fields)))
    answered(scenario.decision.reply, scenario.state is not None)


@given(KINDS, FIELDS)
def test_any_patch_is_accepted_or_told_what_is_wrong(kind: str, fields: dict[str, Any]) -> None:
    scenario = made(kind)
    before = scenario.state
    scenario.when(ChangeIntent(fields, "ann"))
    answered(scenario.decision.reply, scenario.state != before)


@given(st.integers(1, 10_000))
def test_pauses_grow_to_their_bound_and_never_shrink(failures: int) -> None:
    policy = IntentsPolicy()
    pause = check_after_failure(failures, policy, NINE) - NINE
    assert 15 * MINUTE <= pause <= 360 * MINUTE
    assert pause <= check_after_failure(failures + 1, policy, NINE) - NINE


@pytest.mark.parametrize("sent", [[5], None, 5, body(action_type="\ud800"), body(metadata={"a": object()})])
async def test_what_python_sends_that_is_no_json_object_is_refused_as_over_http(sent: Any) -> None:
    async with Betimes("memory://") as bt:
        with pytest.raises(Invalid):
            await bt.intents.create(sent)
        with pytest.raises(Invalid):
            await bt.intents.put("i", sent)
        assert (await bt.intents.list()).items == []
