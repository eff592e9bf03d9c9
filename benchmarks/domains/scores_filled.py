"""A million scores in a database within seconds: one that the engine made, copied with a name and numbers of its own.

The engine creates one score, of a tenant of its own. Every other row is that score's row and ledger row with the
tenant, the id, the points and the instants replaced wherever they occur, and a digest to match, so that a database
filled like this is what creating the scores one by one would have left, whatever columns it has. `verify` agrees.

Scores are one to six hours overdue at `FIRST_SWEEP`, in no particular order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

from betimes import VirtualClock
from betimes.core.datetimes import moment
from betimes.core.instants import HOUR
from betimes.domain.service import Caller
from betimes.engine.engine import Engine
from betimes.scores.service import NewScore, Scores

START = 1_767_600_000_000_000
FIRST_SWEEP = START + 31 * HOUR
STRIDE = 7_919
"""Prime, so that neighbours in the table are not due one after the other."""
_GRACE, _FIRST_LOSS = 24 * HOUR, 4_500
_MODEL = "model"
_POINTS, _INTERACTED_AT = 59_876_543, START + 12_345_678
"""Numbers that occur nowhere else in what is written about the model."""
_DIGESTED = (
    "prev",
    "tenant",
    "kind",
    "id",
    "version",
    "turn",
    "at",
    "schema",
    "command",
    "events",
    "policy",
    "collection",
    "key",
    "verdict",
    "reply",
    "actor",
    "correlation",
    "cause",
)


def interacted_at(number: int) -> int:
    return START + (number * STRIDE % 18_000) * 1_000_000


def points_at_first(number: int) -> int:
    return 60_000_000 + number % 1_000


class Dialect(NamedTuple):
    """What databases spell differently."""

    numbers: str
    """Numbers from 0 to under :count, as `x`."""
    id: str
    json: str
    """A column as JSON text."""
    digest: str
    """The SHA-256 of a text, in hexadecimal."""


SQLITE = Dialect(
    "WITH RECURSIVE numbers(x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM numbers WHERE x + 1 < {count})",
    "printf('user-%07d', x)",
    "json_quote({})",
    "sha256({})",
)
POSTGRES = Dialect(
    "WITH numbers(x) AS (SELECT generate_series(0, {count}::bigint - 1))",
    "'user-' || lpad(x::text, 7, '0')",
    "coalesce(to_json({})::text, 'null')",
    "encode(sha256(convert_to({}, 'UTF8')), 'hex')",
)


async def make_model(engine: Engine, clock: VirtualClock) -> None:
    """The one score that the engine makes."""
    assert clock() < FIRST_SWEEP
    await Scores(engine, Caller(_MODEL)).create(
        NewScore(
            user_id=_MODEL,
            score=Decimal(_POINTS).scaleb(-6),
            created_at=moment(START),
            last_interaction_at=moment(_INTERACTED_AT),
        )
    )


def statements(
    dialect: Dialect, tenant: str, count: int, stream: Sequence[str], ledger: Sequence[str], prefix: str = ""
) -> Iterable[str]:
    """What fills the tables `stream` and `ledger`, whose columns (but those the database fills itself) are given."""
    numbered = f"""{dialect.numbers.format(count=count)}, made AS (
        SELECT {dialect.id} AS own_id, CAST(60000000 + x % 1000 AS TEXT) AS points,
            {START} + x * {STRIDE} % 18000 * 1000000 AS interacted_at
        FROM numbers
    )"""
    worded = {name: _own(name) for name in ("command", "events", "reply")}
    worded |= {"tenant": f"'{tenant}'", "id": "made.own_id", "turn": f"'fill-{tenant}-' || made.own_id"}
    chosen = ", ".join(f"{worded.get(name, f'model.{name}')} AS {name}" for name in _DIGESTED)
    yield f"""CREATE TEMPORARY TABLE filled AS {numbered}
        SELECT {chosen}, {_own("state", "stream")} AS state, made.interacted_at + {_GRACE + _FIRST_LOSS} AS due_at
        FROM made CROSS JOIN {prefix}ledger AS model CROSS JOIN {prefix}stream AS stream
        WHERE model.tenant = '{_MODEL}' AND model.kind = 'score' AND stream.tenant = '{_MODEL}'
            AND stream.kind = 'score'"""
    digest = dialect.digest.format(_array(dialect.json.format(f"filled.{name}") for name in _DIGESTED))
    yield "ALTER TABLE filled ADD COLUMN digest TEXT"
    yield f"UPDATE filled SET digest = {digest}"
    own = {name: f"filled.{name}" for name in ("tenant", "id", "state", "due_at", "digest")}
    yield f"""INSERT INTO {prefix}stream ({", ".join(stream)})
        SELECT {", ".join(own.get(name, f"model.{name}") for name in stream)}
        FROM filled CROSS JOIN {prefix}stream AS model
        WHERE model.tenant = '{_MODEL}' AND model.kind = 'score'"""
    yield f"""INSERT INTO {prefix}ledger ({", ".join(ledger)})
        SELECT {", ".join("written.n" if name == "stream_n" else f"filled.{name}" for name in ledger)}
        FROM filled JOIN {prefix}stream AS written
            ON written.tenant = filled.tenant AND written.kind = 'score' AND written.id = filled.id"""
    yield "DROP TABLE filled"


def _array(texts: Iterable[str]) -> str:
    return "'[' || " + " || ',' || ".join(texts) + " || ']'"


def _own(column: str, table: str = "model") -> str:
    """The model's text with a score's own numbers in it."""
    text = f"{table}.{column}"
    for number, own in (
        (_POINTS, "made.points"),
        (_INTERACTED_AT + _GRACE + _FIRST_LOSS, f"CAST(made.interacted_at + {_GRACE + _FIRST_LOSS} AS TEXT)"),
        (_INTERACTED_AT, "CAST(made.interacted_at AS TEXT)"),
    ):
        text = f"replace({text}, '{number}', {own})"
    return text
