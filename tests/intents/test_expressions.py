"""The language of conditions: a table of what is accepted and what is refused, and fuzzing for everything else."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.intents.conditions import Comparison, Expression, askable, expression
from betimes.intents.drafts import definition_of, draft_from
from betimes.intents.expressions import CHARS_MAX, DEPTH_MAX, NAMES, BadExpression, CannotTell
from tests.intents.stories import body

VALUES = {
    name: Decimal(value)
    for name, value in {
        "price:NVDA": "128.4",
        "price:AMD": "100",
        "price:BRK.B": "470.5",
        "price:BRK-B": "470.5",
        "inactive_hours": "50.5",
        "total_value": "9999.99",
        "any_holding_change": "6",
    }.items()
}
VALUES |= {f"price:{name}": Decimal(1) for name in ("IN", "NULL", "TRUE", "INT", "SIZE", "NOT", "true")}

ACCEPTED = [
    ("NVDA < 130", True),
    ("NVDA<130", True),
    ("NVDA >= 128.4", True),
    ("NVDA > 128.4", False),
    ("NVDA == 128.4", True),
    ("NVDA != 128.4", False),
    ("130 > NVDA", True),
    ("inactive_hours > 48", True),
    ("any_holding_change > 5%", True),
    ("any_holding_change > 5", True),
    ("any_holding_change > 6.5 %", False),
    ("total_value < 10000", True),
    ("NVDA < 130 and AMD < 90", False),
    ("NVDA < 130 AND NOT AMD < 90", True),
    ("NVDA < 1 or AMD < 90 or total_value < 10000", True),
    ("NVDA < 1 || !(AMD < 90) && inactive_hours > 1", True),
    ("not (NVDA < 130 or AMD < 90)", False),
    ("NVDA < 1 and NVDA < 1 or AMD > 1", True),
    ("NVDA < 1 and (NVDA < 1 or AMD > 1)", False),
    ("BRK.B > 470", True),
    ('price("BRK-B") > 470', True),
    ("price('BRK-B') > 470", True),
    ("NVDA / AMD >= 1.284", True),
    ("NVDA + AMD * 2 - 1 > 327", True),
    ("-NVDA < -(100)", True),
    ("NVDA > .5", True),
    ("(NVDA) < (130)", True),
    ("NVDA < 130\n and\tAMD > 1", True),
    ("IN < 1 or NULL < 1 or TRUE >= 1 and INT == SIZE", True),
    ('price("NOT") + price("true") == 2', True),
    ("!NVDA < 130", False),
    ("NVDA > 007", True),
    ("5% < any_holding_change and any_holding_change > -5%", True),
    ("AMD - 1 - 1 == 98 and AMD / 10 / 10 == 1 and -AMD * -1 == 100", True),
]

REFUSED = [
    ("", "position 1: expected a condition"),
    ("   ", "position 4: expected a condition"),
    ("NVDA", "position 1: this is a number where a condition is expected: compare it with something"),
    ("NVDA <", "position 7: expected a number"),
    ("NVDA < <", "position 8: expected a number, found '<'"),
    ("< 130", "position 1: expected a condition, found '<'"),
    ("NVDA = 130", "position 6: unexpected '=': write == to compare"),
    ("NVDA < 130 AMD > 1", "position 12: expected and, or, or the end, found 'AMD'"),
    ("NVDA < 130 and", "position 15: expected a condition"),
    ("1 < NVDA < 5", "position 10: comparisons cannot be chained: join two with and"),
    ("nvda < 130", "position 1: unknown name 'nvda' (a ticker is written in capitals)"),
    ("apple_price < 130", "position 1: unknown name 'apple_price'"),
    ("total_value < 10,000", "position 17: unexpected ',': write numbers without separators"),
    ("total_value < $5", "position 15: unexpected '$': write amounts without a currency"),
    ("NVDA < 5%", "position 6: a percentage goes with any_holding_change only, and that with nothing else"),
    (
        "any_holding_change > NVDA",
        "position 20: a percentage goes with any_holding_change only, and that with nothing else",
    ),
    ("(NVDA < 130", "position 12: expected a closing parenthesis"),
    ("NVDA < 130)", "position 11: expected and, or, or the end, found ')'"),
    ("1 < 2", f"position 1: it compares constants only: name a ticker or one of {', '.join(NAMES)}"),
    ("(NVDA < 1) + 2 > 3", "position 1: this is a condition where a number is expected"),
    ("not NVDA", "position 5: this is a number where a condition is expected: compare it with something"),
    ("NVDA and AMD > 1", "position 1: this is a number where a condition is expected: compare it with something"),
    ("NVDA < 1e3", "position 9: expected and, or, or the end, found 'e3'"),
    ("NVDA < 1234567890123456", "position 8: a number has at most 15 digits before the point and 6 after it"),
    ("NVDA < 1.2345678", "position 8: a number has at most 15 digits before the point and 6 after it"),
    ("price < 5", "position 7: expected (\"TICKER\") after price, found '<'"),
    ("price() < 5", "position 7: expected a ticker in quotation marks, found ')'"),
    ('price("A B") < 5', "position 7: expected a ticker in quotation marks, found '\"A B\"'"),
    ('price("A', "position 7: unexpected '\"': the quotation mark is never closed"),
    ("NVDA < 130;", "position 11: unexpected ';'"),
    ("__import__('os').system('true')", "position 17: unexpected '.'"),
    ("NVDA.__class__ < 1", "position 5: unexpected '.'"),
    ("[1].all(x, x > 0)", "position 1: unexpected '['"),
    ("NVDA < 1 ? 2 : 3", "position 10: unexpected '?'"),
    ("NVDA < 130\x00", "position 11: unexpected '\\x00'"),
    ("NVDA ≤ 130", "position 6: unexpected '≤': write <="),
    ("NVDA => 130", "position 6: unexpected '=': write >="),
    ("NVDA < 1 & AMD < 2", "position 10: unexpected '&': write and"),
    ("NVDA < and", "position 8: expected a number, found 'and'"),
    ("NVDA < NOT 3", "position 8: expected a number, found 'NOT'"),
    ("NVDA < && 3", "position 8: expected a number, found '&&'"),
    ("😀😀 < 1", "position 1: unexpected '😀'"),
    ("NVDA < 1 or '😀' < 1", "position 13: expected a condition, found \"'😀'\""),
    ("NVDA < １３０", "position 8: unexpected '１'"),
    ("NVDA % 2 == 0", "position 6: expected and, or, or the end, found '%'"),
    ("any_holding_change > (5)%", "position 25: expected and, or, or the end, found '%'"),
    ("true", "position 1: unknown name 'true' (a ticker is written in capitals)"),
    ("(" * 9 + "NVDA < 1" + ")" * 9, "position 9: nested more than 8 deep"),
    ("not " * 9 + "NVDA < 1", "position 33: nested more than 8 deep"),
    ("NVDA" + "+1" * 9 + "<1", "position 21: more than 8 of + - * /"),
    ("NVDA < 1" + " " * 500, "position 501: an expression has at most 500 characters"),
]


@pytest.mark.parametrize(("text", "holds"), ACCEPTED)
def test_accepted(text: str, holds: bool) -> None:
    assert expression(text).holds(VALUES) is holds


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_refused_with_the_position(text: str, message: str) -> None:
    with pytest.raises(BadExpression) as refused:
        expression(text)
    assert str(refused.value) == message
    assert refused.value.problems == (("condition.expression", message),)


def compiles_or_says_where(text: str) -> None:
    """Never any other exception; and what is accepted compiles and answers, unless it divides by zero."""
    try:
        found = Expression(text)
    except BadExpression as error:
        place = error.position
    else:
        place = 1
        values = {name: VALUES.get(name, Decimal(1)) for name in found.needs}
        with suppress(CannotTell):  # it divides by zero
            assert found.holds(values) in (True, False)
    assert 1 <= place <= len(text) + 1


@given(st.text(max_size=CHARS_MAX + 5))
def test_any_text_is_understood_or_refused(text: str) -> None:
    compiles_or_says_where(text)


PIECES = st.sampled_from(
    [
        "NVDA",
        "BRK.B",
        "total_value",
        "any_holding_change",
        "inactive_hours",
        'price("X")',
        "1",
        "2.5",
        "5%",
        "<",
        ">=",
        "==",
        "!=",
        "and",
        "or",
        "not",
        "!",
        "&&",
        "||",
        "+",
        "-",
        "*",
        "/",
        "(",
        ")",
        " ",
        "%",
        ".",
        '"',
        "__class__",
    ]
)


@given(st.lists(PIECES, max_size=80).map(" ".join))
def test_any_heap_of_pieces_is_understood_or_refused(text: str) -> None:
    compiles_or_says_where(text)


NUMBERS = st.recursive(
    st.sampled_from(["NVDA", "total_value", "1", "2.5", 'price("X")']),
    lambda inner: st.one_of(
        inner.map("-{}".format), inner.map("({})".format), st.tuples(inner, st.sampled_from("+-*/"), inner).map("".join)
    ),
    max_leaves=8,
)
CONDITIONS = st.recursive(
    st.tuples(NUMBERS, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), NUMBERS).map(" ".join),
    lambda inner: st.one_of(
        inner.map("not {}".format),
        inner.map("({})".format),
        st.tuples(inner, st.sampled_from([" and ", " or "]), inner).map("".join),
    ),
    max_leaves=30,
)


@given(CONDITIONS)
def test_every_sentence_of_the_language_within_its_bounds_compiles(text: str) -> None:
    compiles_or_says_where(text)


def test_the_deepest_and_the_longest_that_are_accepted_compile() -> None:
    deepest = "not (" * (DEPTH_MAX // 2) + "-NVDA+1+1+1+1 < 1+1+1+1+1" + ")" * (DEPTH_MAX // 2)
    with pytest.raises(BadExpression, match="nested"):
        expression(deepest)
    expression("not (" * 3 + "NVDA+1+1+1+1+1 < 1+1+1" + ")" * 3)
    expression("(" * DEPTH_MAX + "NVDA+1+1+1+1+1 < 1+1+1" + ")" * DEPTH_MAX)
    longest = " or ".join(["NVDA < 1 and AMD > 2"] * 20)
    assert len(longest) <= CHARS_MAX
    expression(longest)


def test_what_is_not_known_is_said_and_nothing_is_guessed() -> None:
    with pytest.raises(CannotTell, match="price:NVDA"):
        expression("NVDA < 130 or AMD > 1").holds({"price:AMD": Decimal(2)})
    with pytest.raises(CannotTell, match="divides by zero"):
        expression("AMD / (NVDA - 128.4) > 1").holds(VALUES)


EXACT = [
    ("NVDA + AMD == 0.3", "0.1", "0.2"),
    ("NVDA * 3 == AMD", "0.1", "0.3"),
    ("NVDA - AMD <= 0.65", "0.75", "0.1"),
    ("NVDA / 3 * 3 == NVDA", "0.1", "0"),
    ("NVDA / AMD >= 1.1", "3.3", "3"),
    ("NVDA > 999999999999999.999998", "999999999999999.999999", "0"),
]


@pytest.mark.parametrize(("text", "nvda", "amd"), EXACT)
def test_an_expression_computes_exactly_as_structured_fields_do(text: str, nvda: str, amd: str) -> None:
    values = {"price:NVDA": Decimal(nvda), "price:AMD": Decimal(amd)}
    assert expression(text).holds(values)


def test_a_condition_names_what_it_looks_at() -> None:
    assert expression("NVDA < 1 or total_value < AMD").needs == ("price:NVDA", "total_value", "price:AMD")


@pytest.mark.parametrize(
    ("trigger_type", "wanted"),
    [
        ("price", Comparison("price:NVDA", "<", Decimal(130))),
        ("silence", Comparison("inactive_hours", ">=", Decimal(48))),
        ("portfolio", Comparison("any_holding_change", ">", Decimal(5))),
        ("cron", None),
    ],
)
def test_structured_fields_are_compared_exactly(trigger_type: str, wanted: Comparison | None) -> None:
    draft, found, _ = draft_from(body(trigger_type))
    assert not found
    assert askable(definition_of(draft)) == wanted
    assert Comparison("x", "<=", Decimal("0.3")).holds({"x": Decimal("0.1") + Decimal("0.2")})
