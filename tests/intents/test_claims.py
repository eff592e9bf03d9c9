"""Claims as scenarios: who gets one, its fence, and its end."""

from __future__ import annotations

from betimes.intents.fold import index
from betimes.intents.model import (
    ClaimIntent,
    ClaimRenewed,
    DefineIntent,
    DeleteIntent,
    DisableIntent,
    IntentClaimed,
    ReleaseClaim,
    RenewClaim,
)
from tests.intents.stories import HOUR, MINUTE, NINE, body, fired, made, nothing

CLAIM = ClaimIntent("w1")


def test_a_due_intent_is_claimed_for_five_minutes() -> None:
    scenario = made().when(CLAIM).then(IntentClaimed(2, "w1", NINE, NINE + 5 * MINUTE))
    scenario.then_verdict("NOW", "DUE")


def test_a_claim_lasts_as_long_as_its_worker_or_the_policy_says() -> None:
    made().when(ClaimIntent("w1", 10)).then(IntentClaimed(2, "w1", NINE, NINE + 10_000_000))
    made(policy={"claim_lease_s": 60}).when(CLAIM).then(IntentClaimed(2, "w1", NINE, NINE + MINUTE))


def test_while_a_claim_is_alive_nobody_else_gets_one() -> None:
    scenario = made().when(CLAIM).at(NINE + 5 * MINUTE - 1).when(ClaimIntent("w2")).then_refused("ALREADY_CLAIMED")
    scenario.when(ClaimIntent("w2", among_many=True)).then_nothing()


def test_what_is_unknown_disabled_or_not_due_cannot_be_claimed() -> None:
    nothing().when(CLAIM).then_refused("NOT_FOUND")
    made().when(DisableIntent()).when(CLAIM).then_refused("DISABLED")
    made("interval").when(CLAIM).then_refused("NOT_DUE")
    made("interval").at(NINE + 30 * MINUTE).when(CLAIM).then_verdict("NOW", "DUE")


def test_tokens_only_ever_grow_also_over_deletion() -> None:
    scenario = made().when(CLAIM)
    tokens = [scenario.version]
    scenario.when(ReleaseClaim(2)).when(CLAIM)
    tokens.append(scenario.version)
    scenario.when(DeleteIntent()).when(DefineIntent(body())).when(CLAIM)
    tokens.append(scenario.version)
    assert tokens == sorted(set(tokens))
    assert scenario.state
    assert scenario.state.claim
    assert scenario.state.claim.token == tokens[-1]


def test_a_claim_is_renewed_from_now_and_given_back() -> None:
    scenario = made().when(CLAIM).at(NINE + 4 * MINUTE).when(RenewClaim(2, 600))
    scenario.then(ClaimRenewed(NINE + 14 * MINUTE)).then_alarm(NINE + 14 * MINUTE)
    scenario.when(RenewClaim(1)).then_refused("CLAIM_LOST")
    scenario.when(ReleaseClaim(2)).then_alarm(None)
    assert scenario.state
    assert scenario.state.failure_count == 0
    scenario.when(ClaimIntent("w2")).then_verdict("NOW", "DUE")


def test_a_single_claim_may_take_a_cooling_intent_and_a_bulk_leaves_it_alone() -> None:
    cooling = made().when(fired("success")).at(NINE + HOUR)
    cooling.when(ClaimIntent("w1", among_many=True)).then_nothing().then_verdict("LATER", "COOLDOWN")
    cooling.when(CLAIM).then_verdict("NOW", "DUE")


def test_due_is_the_later_of_next_check_cooldown_and_claim() -> None:
    scenario = made()
    assert scenario.state
    assert index(scenario.state).due_at == NINE
    scenario.when(CLAIM)
    assert index(scenario.state).due_at == NINE + 5 * MINUTE
    scenario.when(fired("success", token=2))
    assert (index(scenario.state).due_at, index(scenario.state).status) == (NINE + 24 * HOUR, "cooling.price")
    scenario.when(DisableIntent())
    assert (index(scenario.state).due_at, index(scenario.state).status) == (None, "disabled.price")
