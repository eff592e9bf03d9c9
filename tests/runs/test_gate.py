"""The cost gate by itself, and the slots of a tenant against a slow but plain calculation."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.core.canonical import encode
from betimes.core.windows import Window
from betimes.runs.rules import GATE, DecisionCostGateInput, DecisionCostGateOutput, evaluate, slot_needed, would_pass_at
from betimes.runs.slots import first_free_at, with_one, without_one
from tests.runs.scenes import NINE, SECOND

SPAN = 20
seconds = st.integers(0, 60)
cases = st.builds(
    DecisionCostGateInput,
    tenant_id=st.just("t"),
    account_id=st.just("a"),
    trigger_type=st.just("T"),
    now=st.integers(NINE, NINE + 7200 * SECOND),
    recency_last_run_at=st.none() | st.integers(NINE - 7200 * SECOND, NINE),
    cooldown_s=st.integers(0, 7200),
    budget_remaining=st.none() | st.integers(-1, 3),
    budget_resets=st.booleans(),
    account_runs=st.lists(st.integers(0, 3599), max_size=4, unique=True).map(
        lambda list: tuple((NINE // SECOND - s, 1) for s in sorted(list, reverse=True))
    ),
    account_cap=st.none() | st.integers(1, 4),
    tenant_runs=st.lists(st.integers(0, 3599), max_size=4, unique=True).map(
        lambda list: tuple((NINE // SECOND - s, 1) for s in sorted(list, reverse=True))
    ),
    tenant_cap=st.none() | st.integers(1, 4),
    action_saturation_score=st.none() | st.decimals(0, 2, places=2),
    saturation_resets=st.booleans(),
)


def case(**fields: object) -> DecisionCostGateInput:
    return DecisionCostGateInput(tenant_id="t", account_id="a", trigger_type="T", now=NINE, **fields)  # type: ignore[arg-type]


def test_absent_inputs_never_block() -> None:
    assert evaluate(case()) == DecisionCostGateOutput("ALLOW", "WITHIN_LIMITS", "It is within all limits.", NINE)


def test_the_gate_explains_itself() -> None:
    out = evaluate(case(recency_last_run_at=NINE - 100 * SECOND, cooldown_s=300))
    assert out.explanation == (
        "a ran at 08:58:20Z; its cooldown of 5 minutes ends at 09:03:20Z. It is judged again at 09:03:20Z."
    )
    full = evaluate(case(tenant_runs=((NINE // SECOND - 5, 2),), tenant_cap=2))
    assert full.explanation.startswith(
        "All accounts together had 2 runs of this type within the hour and 0 promised; the cap is 2"
    )


def test_a_deferral_names_the_epoch_rounded_up_and_the_seconds_to_it() -> None:
    out = evaluate(case(recency_last_run_at=NINE - 100 * SECOND + 1, cooldown_s=300))
    assert (out.result, out.reason) == ("DEFER", "COOLDOWN")
    assert (out.evaluated_at, out.defer_until_epoch, out.retry_after_seconds) == (NINE, NINE // SECOND + 201, 201)


def test_the_first_match_wins_in_the_order_of_the_rules() -> None:
    everything = {
        "budget_remaining": 0,
        "recency_last_run_at": NINE,
        "cooldown_s": 1,
        "account_runs": ((NINE // SECOND, 1),),
        "account_cap": 1,
        "tenant_runs": ((NINE // SECOND, 1),),
        "tenant_cap": 1,
        "action_saturation_score": Decimal(1),
    }
    removed: list[tuple[str, str]] = [
        ("budget_remaining", "BUDGET_EXHAUSTED"),
        ("cooldown_s", "COOLDOWN"),
        ("account_cap", "ACCOUNT_HOURLY_CAP"),
        ("tenant_cap", "TENANT_HOURLY_CAP"),
        ("action_saturation_score", "MARGINAL_VALUE_LOW"),
    ]
    for name, reason in removed:
        assert evaluate(case(**everything)).reason == reason
        del everything[name]
    assert evaluate(case(**everything)).result == "ALLOW"


@given(cases)
def test_the_same_input_gives_the_same_bytes(one: DecisionCostGateInput) -> None:
    again = DecisionCostGateInput(**{name: getattr(one, name) for name in one.__struct_fields__})
    assert encode(evaluate(one)) == encode(evaluate(again))


@given(cases)
@settings(max_examples=200)
def test_a_deferral_passes_every_time_limit_at_its_instant_and_not_before(one: DecisionCostGateInput) -> None:
    verdict = GATE.judge(one)
    if verdict.answer != "LATER" or verdict.until is None:
        return

    def later(at: int) -> str:
        fields = {name: getattr(one, name) for name in one.__struct_fields__}
        return evaluate(DecisionCostGateInput(**{**fields, "now": at, "action_saturation_score": None})).result

    short_of_it = 1 if slot_needed(one) is None else SECOND  # a slot of the tenant's is a whole second
    assert later(verdict.until) == "ALLOW"
    assert later(max(one.now, verdict.until - short_of_it)) == "DEFER"


@given(cases)
@settings(max_examples=200)
def test_what_is_said_to_pass_at_an_instant_passes_then(one: DecisionCostGateInput) -> None:
    verdict = GATE.judge(one)
    at = would_pass_at(one, verdict)
    if at is None:
        return
    fields = {name: getattr(one, name) for name in one.__struct_fields__}
    fresh = {"now": at}
    if one.budget_remaining is not None and one.budget_remaining <= 0:
        fresh["budget_remaining"] = None  # type: ignore[assignment]
    if one.action_saturation_score is not None and one.action_saturation_score >= 1:
        fresh["action_saturation_score"] = None  # type: ignore[assignment]
    assert evaluate(DecisionCostGateInput(**{**fields, **fresh})).result == "ALLOW"


# -- slots


def window(seconds: list[int]) -> Window:
    counts: Window = ()
    for second in seconds:
        counts = with_one(counts, second)
    return counts


def plainly(taken: list[int], promised: list[int], from_s: int, cap: int) -> int:
    """The first second at which one more leaves no window of `SPAN` seconds over its cap."""
    for candidate in range(from_s, 10_000):
        entered = (*taken, *promised, candidate)
        ends = [second for second in entered if 0 <= second - candidate < SPAN]
        if all(sum(end - SPAN < second <= end for second in entered) <= cap for end in ends):
            return candidate
    raise AssertionError("no slot")


@given(st.lists(st.integers(0, 40), max_size=12), st.lists(st.integers(30, 90), max_size=8), seconds, st.integers(1, 4))
@settings(max_examples=200)
def test_the_first_free_slot_is_the_first_that_takes_nobodys(
    taken: list[int], promised: list[int], from_s: int, cap: int
) -> None:
    found = first_free_at(window(taken), window(promised), from_s * SECOND, cap, SPAN)
    assert found == plainly(taken, promised, from_s, cap) * SECOND


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(0, 60 * SECOND), st.integers(1, 4))
def test_between_two_seconds_a_slot_is_free_only_if_it_is_by_both(taken: list[int], from_at: int, cap: int) -> None:
    found = first_free_at(window(taken), (), from_at, cap, SPAN)
    assert found >= from_at
    if found == from_at:
        inside = [s for s in taken if from_at // SECOND - SPAN < s <= -(-from_at // SECOND)]
        assert len(inside) < cap


def test_what_was_promised_and_given_back_leaves_no_trace() -> None:
    assert without_one(with_one(((5, 1),), 7), 7) == ((5, 1),)
    assert without_one(with_one(((5, 1),), 5), 5) == ((5, 1),)
