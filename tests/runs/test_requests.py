"""What callers send: in either form, and what is wrong with it by its path."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from betimes.core.checks import check_value
from betimes.core.errors import Invalid
from betimes.runs.triggers import examined_trigger, tenant_rule
from betimes.runs.views import CompleteRequest, TriggerRequest
from tests.runs.worlds import runs_world
from tests.stores.backends import Backend


def trigger_request(body: Any, tenant: str) -> TriggerRequest:
    examined = examined_trigger(body)
    examined.judge((tenant_rule(tenant),))
    return examined.whole()


def test_the_envelope_of_the_seed_is_a_trigger() -> None:
    detail = {
        "tenant_id": "acme",
        "account_id": "a",
        "trigger_type": "SIGNAL_ARRIVED",
        "idempotency_key": "k",
        "scheduled_at": "2026-01-05T09:00:00Z",
        "correlation_id": "c",
    }
    envelope = {"source": "cc-native", "detail-type": "RUN_DECISION", "detail": detail}
    assert trigger_request(envelope, "acme").idempotency_key == "k"
    with pytest.raises(Invalid) as refusal:
        trigger_request(envelope, "other")
    assert [path for path, _ in refusal.value.problems] == ["detail.tenant_id"]
    with pytest.raises(Invalid) as refusal:
        trigger_request(detail, "other")
    assert [path for path, _ in refusal.value.problems] == ["tenant_id"]
    with pytest.raises(Invalid) as refusal:
        trigger_request({"account_id": "a b", "trigger_type": "x", "colour": 1}, "acme")
    paths = sorted(path for path, _ in refusal.value.problems)
    assert paths == ["account_id", "colour", "idempotency_key", "trigger_type"]


async def test_an_instant_without_a_zone_is_refused(backend: Backend, tmp_path: Path) -> None:
    async with runs_world(backend, tmp_path) as w:
        with pytest.raises(Invalid, match="offset"):
            await w.trigger("k1", scheduled_at=datetime(2026, 1, 5))  # noqa: DTZ001 — what is refused


LARGE = {"text": "x" * 64 * 1024}


@pytest.mark.parametrize(
    ("more", "path"), [({"payload": LARGE}, "payload"), ({"action_saturation_score": -1}, "action_saturation_score")]
)
def test_a_field_that_is_out_of_bounds_is_named(more: dict[str, Any], path: str) -> None:
    body = {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k", **more}
    for sent, where in ((body, path), ({"detail-type": "RUN_DECISION", "detail": body}, f"detail.{path}")):
        with pytest.raises(Invalid) as refusal:
            trigger_request(sent, "acme")
        assert [found for found, _ in refusal.value.problems] == [where]


def test_a_result_that_is_too_large_is_named() -> None:
    with pytest.raises(Invalid) as refusal:
        check_value({"claim_token": 1, "status": "succeeded", "result": LARGE}, CompleteRequest)
    assert [path for path, _ in refusal.value.problems] == ["result"]


def test_a_trigger_made_in_python_is_checked_like_any_other() -> None:
    made = TriggerRequest(account_id="a\0", trigger_type="SIGNAL_ARRIVED", idempotency_key="k" * 5_000)
    with pytest.raises(Invalid, match="account_id"):
        trigger_request(made, "acme")
