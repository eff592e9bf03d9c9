"""Triggers that are sent together."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from betimes.core.errors import Invalid, Refused
from betimes.runs.views import TriggerRequest, TriggerVerdict
from tests.runs.worlds import runs_world
from tests.stores.backends import Backend


async def test_triggers_sent_together_are_answered_as_if_each_came_alone(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path, runs={"tiers": {"gold": {}}}) as w:
        answers = await w.runs.trigger_many(
            [
                TriggerRequest(account_id="acct", trigger_type="SIGNAL_ARRIVED", idempotency_key="k1"),
                {"account_id": "acct", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k2"},
                {"account_id": "acct"},
                {"account_id": "b", "trigger_type": "NO_SUCH_TYPE", "idempotency_key": "k3"},
                {"account_id": "b", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k4", "tenant_tier": "tin"},
                {"account_id": "b", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k5", "tenant_id": "else"},
                {"account_id": "acct", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k1"},
            ]
        )
        told = [(type(one), getattr(one, "reason", "")) for one in answers]
        assert told == [
            (TriggerVerdict, "WITHIN_LIMITS"),
            (TriggerVerdict, "DEBOUNCED"),
            (Invalid, ""),
            (Refused, "UNKNOWN_TRIGGER_TYPE"),
            (Invalid, ""),
            (Invalid, ""),
            (TriggerVerdict, "DUPLICATE_IDEMPOTENCY_KEY"),
        ]
        wrong = [{name for name, _ in one.problems} for one in answers if isinstance(one, Invalid)]
        assert wrong == [{"trigger_type", "idempotency_key"}, {"tenant_tier"}, {"tenant_id"}]
        for sent in ([], [{"account_id": "a"}] * 501, {"account_id": "a"}):
            with pytest.raises(Invalid, match="items"):
                await w.runs.trigger_many(sent)  # type: ignore[arg-type]


async def test_triggers_sent_together_keep_the_trace_to_those_who_ask(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path) as w:
        asked = TriggerRequest(account_id="acct", trigger_type="SIGNAL_ARRIVED", idempotency_key="k1")
        [first] = await w.runs.trigger_many([asked], trace=True)
        [later] = await w.runs.trigger_many([replace(asked, idempotency_key="k2")])
        assert isinstance(first, TriggerVerdict)
        assert isinstance(later, TriggerVerdict)
        assert (first.segment_id, later.segment_id) == ("account:acct:1", "account:acct:2")
        assert [step.rule for step in first.trace or ()][:2] == ["debounce", "budget"]
        assert later.trace is None
