"""The language of conditions: read, checked for sense, and compiled into functions that compute exactly.

    NVDA < 130
    any_holding_change > 5% or total_value < 10000
    not (inactive_hours <= 48) and price("BRK-B") / NVDA >= 2.5

Names are `inactive_hours`, `total_value`, `any_holding_change`, a ticker in capitals, or `price("…")` for a ticker of
any spelling. There are numbers, percentages, `+ - * /`, `< <= > >= == !=`, `and`, `or`, `not` and parentheses, and
nothing else: no functions, strings, lists or attributes. A mistake is a `BadExpression` that says where it is,
counted in characters from 1. Numbers are fractions: `0.1 + 0.2 == 0.3` and `1 / 3 * 3 == 1` are true.

Length, depth and arithmetic steps are bounded, and reading and computing are linear in the length.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias

from betimes.core.errors import BetimesError, Invalid

CHARS_MAX = 500
DEPTH_MAX = 8
RECKONINGS_MAX = 8
WHOLE_DIGITS_MAX, DECIMALS_MAX = 15, 6
NAMES = ("inactive_hours", "total_value", "any_holding_change")
TICKER = re.compile(r"[A-Za-z0-9.^=_/-]{1,20}", re.ASCII)
_PLAIN_TICKER = re.compile(r"[A-Z][A-Z0-9]{0,9}(\.[A-Z0-9]{1,4})?", re.ASCII)
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
      | (?P<number>\d+(?:\.\d*)?|\.\d+)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9]+)*)
      | (?P<text>"[^"\n]*"|'[^'\n]*')
      | (?P<mark><=|>=|==|!=|&&|\|\||[-<>+*/()%!])""",
    re.VERBOSE | re.ASCII,
)
_WORDS = {"and": "&&", "or": "||", "not": "!"}
_GOING_ON = "and, or, or the end"
_COMPARING: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_RECKONING: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
PRICE = "price:"
"""Before a ticker, the name of its price among the values."""
_HINTS = {
    "=": "write == to compare",
    "=<": "write <=",
    "=>": "write >=",
    "≤": "write <=",
    "≥": "write >=",
    "≠": "write !=",
    "&": "write and",
    "|": "write or",
    ",": "write numbers without separators",
    "$": "write amounts without a currency",
    '"': "the quotation mark is never closed",
    "'": "the quotation mark is never closed",
}

Sort: TypeAlias = Literal["truth", "amount", "share", "bare"]
"""What a part is: true or false, an amount, a percentage, or a number that may be either."""
Numbers: TypeAlias = Mapping[str, Fraction]
"""By name: `inactive_hours`, `total_value`, `any_holding_change`, and `price:TICKER`."""
Compute: TypeAlias = Callable[[Numbers], Any]


class CannotTell(BetimesError):
    """A condition could not be evaluated with what the sources gave."""

    code = "INVALID"


class BadExpression(Invalid):
    """The expression cannot be understood; `position` counts characters from 1."""

    def __init__(self, position: int, message: str) -> None:
        told = f"position {position}: {message}"
        super().__init__(told, (("condition.expression", told),))
        self.position = position


class Parsed(NamedTuple):
    """An expression that makes sense: how to compute it, and the names of the values it looks at."""

    holds: Compute
    needs: tuple[str, ...]


class _Token(NamedTuple):
    kind: str
    text: str
    at: int
    written: str
    """As its author wrote it: `and` for `&&`."""


class _Operand(NamedTuple):
    compute: Compute
    sort: Sort
    at: int


_Inner: TypeAlias = Callable[[str], _Operand]


def parse_expression(text: str) -> Parsed:
    """Compile an expression; raise `BadExpression` if it makes no sense."""
    if len(text) > CHARS_MAX:
        raise BadExpression(CHARS_MAX + 1, f"an expression has at most {CHARS_MAX} characters")
    return _Parser(text).parse()


def _tokens(text: str) -> Iterator[_Token]:
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            hint = _HINTS.get(text[place : place + 2]) or _HINTS.get(text[place])
            raise BadExpression(place + 1, f"unexpected {_quote_text(text[place])}" + (f": {hint}" if hint else ""))
        kind, found = match.lastgroup or "", match[0]
        if kind == "name" and found.lower() in _WORDS:
            yield _Token("mark", _WORDS[found.lower()], place + 1, found)
        elif kind != "space":
            yield _Token(kind, found, place + 1, found)
        place = match.end()
    yield _Token("end", "", len(text) + 1, "")


def _quote_text(text: str) -> str:
    return repr(text) if text.isprintable() else ascii(text)


class _Parser:
    """One descent per precedence, loosest first."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._place = 0
        self._depth = 0
        self._reckonings = 0
        self._needs: dict[str, None] = {}

    def parse(self) -> Parsed:
        whole = self._parse_either("a condition")
        if self._next.kind != "end":
            raise self._unexpected_token(_GOING_ON)
        self._demand_truth(whole)
        if not self._needs:
            raise BadExpression(whole.at, f"it compares constants only: name a ticker or one of {', '.join(NAMES)}")
        return Parsed(whole.compute, tuple(self._needs))

    # -- tokens

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _take(self, *marks: str) -> _Token | None:
        token = self._next
        if token.kind != "mark" or token.text not in marks:
            return None
        self._place += 1
        return token

    def _unexpected_token(self, wanted: str) -> BadExpression:
        token = self._next
        if wanted == _GOING_ON and token.kind == "mark" and token.text in _COMPARING:
            return BadExpression(token.at, "comparisons cannot be chained: join two with and")
        found = "" if token.kind == "end" else f", found {_quote_text(token.written)}"
        return BadExpression(token.at, f"expected {wanted}{found}")

    def _deeper(self, at: int) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise BadExpression(at, f"nested more than {DEPTH_MAX} deep")

    # -- truths

    def _parse_either(self, wanted: str) -> _Operand:
        return self._parse_joined("||", _either, self._parse_both, wanted)

    def _parse_both(self, wanted: str) -> _Operand:
        return self._parse_joined("&&", _both, self._parse_negation, wanted)

    def _parse_joined(
        self, mark: str, join: Callable[[Compute, Compute], Compute], inner: _Inner, wanted: str
    ) -> _Operand:
        left = inner(wanted)
        while self._take(mark):
            right = inner("a condition")
            self._demand_truth(left)
            self._demand_truth(right)
            left = _Operand(join(left.compute, right.compute), "truth", left.at)
        return left

    def _parse_negation(self, wanted: str) -> _Operand:
        token = self._take("!")
        if token is None:
            return self._parse_comparison(wanted)
        self._deeper(token.at)
        inner = self._parse_negation("a condition")
        self._depth -= 1
        self._demand_truth(inner)
        return _Operand(_apply(operator.not_, inner.compute), "truth", token.at)

    def _parse_comparison(self, wanted: str) -> _Operand:
        left = self._parse_sum(wanted)
        token = self._take(*_COMPARING)
        if token is None:
            return left
        right = self._parse_sum("a number")
        self._demand_number(left)
        self._demand_number(right)
        self._demand_alike(left, right, token.at)
        return _Operand(_apply(_COMPARING[token.text], left.compute, right.compute), "truth", left.at)

    # -- numbers

    def _parse_sum(self, wanted: str) -> _Operand:
        return self._parse_arithmetic(("+", "-"), self._parse_product, wanted)

    def _parse_product(self, wanted: str) -> _Operand:
        return self._parse_arithmetic(("*", "/"), self._parse_sign, wanted)

    def _parse_arithmetic(self, marks: tuple[str, str], inner: _Inner, wanted: str) -> _Operand:
        left = inner(wanted)
        while token := self._take(*marks):
            self._reckonings += 1
            if self._reckonings > RECKONINGS_MAX:
                raise BadExpression(token.at, f"more than {RECKONINGS_MAX} of + - * /")
            right = inner("a number")
            self._demand_number(left)
            self._demand_number(right)
            self._demand_alike(left, right, token.at)
            sort = right.sort if left.sort == "bare" else left.sort
            left = _Operand(_apply(_RECKONING[token.text], left.compute, right.compute), sort, left.at)
        return left

    def _parse_sign(self, wanted: str) -> _Operand:
        token = self._take("-")
        if token is None:
            return self._parse_operand(wanted)
        self._deeper(token.at)
        inner = self._parse_sign("a number")
        self._depth -= 1
        self._demand_number(inner)
        return _Operand(_apply(operator.neg, inner.compute), inner.sort, token.at)

    def _parse_operand(self, wanted: str) -> _Operand:
        token = self._next
        if opening := self._take("("):
            self._deeper(opening.at)
            inner = self._parse_either("a condition or a number")
            self._depth -= 1
            if not self._take(")"):
                raise self._unexpected_token("a closing parenthesis")
            return _Operand(inner.compute, inner.sort, opening.at)
        if token.kind == "number":
            self._place += 1
            sort: Sort = "share" if self._take("%") else "bare"
            return _Operand(_constant(_literal(token)), sort, token.at)
        if token.kind == "name":
            self._place += 1
            return self._parse_name(token)
        raise self._unexpected_token(wanted)

    def _parse_name(self, token: _Token) -> _Operand:
        if token.text in NAMES:
            return self._look_up(token.text, "share" if token.text == "any_holding_change" else "amount", token.at)
        if token.text == "price":
            return self._parse_price(token)
        if not _PLAIN_TICKER.fullmatch(token.text):
            capital = " (a ticker is written in capitals)" if _PLAIN_TICKER.fullmatch(token.text.upper()) else ""
            raise BadExpression(token.at, f"unknown name {_quote_text(token.text)}{capital}")
        return self._look_up(PRICE + token.text, "amount", token.at)

    def _parse_price(self, token: _Token) -> _Operand:
        if not self._take("("):
            raise self._unexpected_token('("TICKER") after price')
        quoted = self._next
        if quoted.kind != "text" or not TICKER.fullmatch(quoted.text[1:-1]):
            raise self._unexpected_token("a ticker in quotation marks")
        self._place += 1
        if not self._take(")"):
            raise self._unexpected_token("a closing parenthesis")
        return self._look_up(PRICE + quoted.text[1:-1], "amount", token.at)

    def _look_up(self, name: str, sort: Sort, at: int) -> _Operand:
        self._needs[name] = None
        return _Operand(operator.itemgetter(name), sort, at)

    # -- sense

    def _demand_truth(self, part: _Operand) -> None:
        if part.sort != "truth":
            raise BadExpression(part.at, "this is a number where a condition is expected: compare it with something")

    def _demand_number(self, part: _Operand) -> None:
        if part.sort == "truth":
            raise BadExpression(part.at, "this is a condition where a number is expected")

    def _demand_alike(self, left: _Operand, right: _Operand, at: int) -> None:
        if {left.sort, right.sort} == {"amount", "share"}:
            raise BadExpression(at, "a percentage goes with any_holding_change only, and that with nothing else")


def _literal(token: _Token) -> Fraction:
    whole, _, decimals = token.text.partition(".")
    if len(whole) > WHOLE_DIGITS_MAX or len(decimals) > DECIMALS_MAX:
        raise BadExpression(
            token.at, f"a number has at most {WHOLE_DIGITS_MAX} digits before the point and {DECIMALS_MAX} after it"
        )
    return Fraction(f"{whole or '0'}.{decimals or '0'}")


# -- what parts are compiled into


def _constant(value: Fraction) -> Compute:
    return lambda numbers: value


def _apply(function: Callable[..., Any], *parts: Compute) -> Compute:
    return lambda numbers: function(*(part(numbers) for part in parts))


def _both(left: Compute, right: Compute) -> Compute:
    return lambda numbers: left(numbers) and right(numbers)


def _either(left: Compute, right: Compute) -> Compute:
    return lambda numbers: left(numbers) or right(numbers)
