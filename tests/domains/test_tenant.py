"""A tenant: its policy by version, its keys, its webhook secret."""

from __future__ import annotations

from betimes.core.policies import PolicyBook
from betimes.engine.tenants.decide import tenant_decider
from betimes.engine.tenants.model import (
    KEYS_MAX,
    CreateKey,
    KeyRevoked,
    KeyRotated,
    PolicySet,
    RevokeKey,
    RotateKey,
    RotateWebhookSecret,
    SetPolicy,
    TenantState,
    tenant_stream,
)
from betimes.runs.policy import RunsPolicy
from betimes.testing.scenarios import Scenario, given
from tests.runs.scenes import NINE, SECOND

DECIDER = tenant_decider(PolicyBook({"runs": RunsPolicy}))
ACTIVE = {"runs": {"mode": "shadow"}}


def tenant() -> Scenario[TenantState]:
    return given(DECIDER, stream=tenant_stream("acme"))


def key(name: str = "acme~1") -> CreateKey:
    return CreateKey(name, "ci", ("runs:read",), "digest")


def test_a_policy_moves_its_version_and_one_that_changes_nothing_does_not() -> None:
    scenario = tenant().when(SetPolicy(ACTIVE))
    assert isinstance(scenario.decision.events[0], PolicySet)
    scenario.when(SetPolicy(ACTIVE)).then_nothing()
    scenario.when(key()).when(SetPolicy({}))
    assert scenario.state
    assert (scenario.state.policy_version, scenario.version) == (2, 3), "a key is no change of the policy"


def test_a_policy_on_condition_of_a_version_that_is_gone_is_refused() -> None:
    scenario = tenant().when(SetPolicy(ACTIVE, expected_version=0)).when(SetPolicy({}, expected_version=0))
    scenario.then_refused("VERSION_MISMATCH")
    scenario.when(SetPolicy({}, expected_version=1))
    assert scenario.state
    assert scenario.state.policy_version == 2


def test_a_policy_that_cannot_work_is_refused() -> None:
    tenant().when(SetPolicy({"runs": {"mode": "off"}})).then_refused("POLICY_INVALID")


def test_what_is_in_force_is_only_in_the_tenants_own_stream() -> None:
    given(DECIDER, stream=tenant_stream("acme")._replace(id="other")).when(key()).then_refused("WRONG_STREAM")


def test_a_key_is_rotated_one_at_a_time_and_revoked_for_good() -> None:
    scenario = tenant().when(key()).when(RotateKey("acme~1", "new", 60))
    scenario.then(KeyRotated("acme~1", "new", NINE + 60 * SECOND))
    scenario.when(RotateKey("acme~1", "newer", 60)).then_refused("ROTATION_IN_PROGRESS")
    scenario.at(NINE + 60 * SECOND).when(RotateKey("acme~1", "newer", 0))
    assert scenario.state
    kept = scenario.state.keys["acme~1"]
    assert (kept.secret_digest, kept.previous_digest) == ("newer", "new")
    scenario.when(RevokeKey("acme~1")).then(KeyRevoked("acme~1", NINE + 60 * SECOND))
    scenario.when(RevokeKey("acme~1")).then_refused("NOT_FOUND")
    scenario.when(RotateKey("acme~1", "x", 0)).then_refused("NOT_FOUND")
    scenario.when(RevokeKey("acme~2")).then_refused("NOT_FOUND")


def test_keys_are_bounded_and_their_ids_used_once() -> None:
    scenario = tenant()
    for number in range(KEYS_MAX):
        scenario.when(key(f"acme~{number}"))
    scenario.when(key("acme~0")).then_refused("ALREADY_EXISTS")
    scenario.when(key("acme~more")).then_refused("TOO_MANY_KEYS")


def test_a_key_that_ended_makes_room_for_another() -> None:
    scenario = tenant()
    for number in range(KEYS_MAX):
        scenario.when(key(f"acme~{number}"))
    scenario.when(RevokeKey("acme~7")).when(RevokeKey("acme~3"))
    scenario.when(key("acme~more"))
    state = scenario.state
    assert state
    assert len(state.keys) == KEYS_MAX
    assert {"acme~more"} <= state.keys.keys()
    assert len({"acme~3", "acme~7"} & state.keys.keys()) == 1


def test_both_webhook_secrets_are_kept_while_one_ends() -> None:
    scenario = tenant().when(RotateWebhookSecret("whsec_a", 0)).when(RotateWebhookSecret("whsec_b", 60))
    state = scenario.state
    assert state
    assert (state.webhook_secret, state.previous_webhook_secret) == ("whsec_b", "whsec_a")
    assert state.previous_webhook_secret_expires_at == NINE + 60 * SECOND
