"""Requests from Python may be what would come over a wire; what is wrong with them is named all at once."""

from __future__ import annotations

import pytest

from betimes import Betimes, Invalid, VirtualClock


async def test_mappings_are_taken_for_requests() -> None:
    async with Betimes("memory://", clock=VirtualClock()) as bt:
        asked = {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"}
        verdict = await bt.runs.trigger(asked)
        claim = await bt.runs.claim(verdict.run_id or "", {"worker": "w"})
        done = await bt.runs.complete(claim.run.run_id, {"claim_token": claim.claim_token, "status": "succeeded"})
        assert done.status == "succeeded"
        await bt.scores.create({"user_id": "ann"})
        await bt.scores.adjust("ann", {"delta": -10, "reason": "a game"})
        assert (await bt.scores.get("ann")).score == 40


async def test_everything_that_is_wrong_with_a_mapping_is_named() -> None:
    async with Betimes("memory://", clock=VirtualClock()) as bt:
        with pytest.raises(Invalid) as wrong:
            await bt.runs.trigger({"account_id": 7, "trigger_typ": "SIGNAL_ARRIVED"})
        paths = {path for path, _ in wrong.value.problems}
        assert {"account_id", "trigger_type", "trigger_typ", "idempotency_key"} <= paths
