"""The sweep as the set-based SQL a person would write by hand, over the same rows and over plain columns.

`same rows` does to the store's tables what a sweep of chapter 1 does, row for row: the state's JSON, version and due
index, and a ledger row with the command, the event and the digest that chains it to the one before, so that `verify`
finds nothing. It knows one stage and no thresholds, hooks, pauses, failures or other tenants' policies. `plain` updates
a table of plain columns and keeps no history: what such a table costs when nobody asks why.

Instants and amounts are whole: microseconds and micro-points. :tenant is whose scores are swept; :until,
:interval, :grace, :rate, :cap and :cycle are the sweep's instant and the terms of chapter 1.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

_DAY, _HOUR = 86_400_000_000, 3_600_000_000


def _loss(score: str, base: str, applied: str, least: str) -> str:
    """D(until) - D(applied, or grace end), as SQL; `least` is the dialect's minimum of several values."""

    def lost(x: str) -> str:
        return f"({x} / {_DAY} * {least}(:cap, 24 * :rate) + {least}(:cap, :rate * ({x} % {_DAY}) / {_HOUR}))"

    until, since = f"(:until - {base} - :grace)", f"(coalesce({applied} - {base} - :grace, 0))"
    return f"{least}({score}, :cycle, {lost(until)} - {lost(since)})"


_STATE = """'{"score":' || (score - amount) || ',"chapter":' || chapter || ',"status":"' || status
    || '","created_at":' || created_at || ',"interacted_at":' || interacted_at
    || ',"applied_at":' || :until || ',"due_at":' || (:until + :interval) || '}'"""
_EVENTS = """'[{"type":"Decayed","amount":' || amount || ',"score":' || (score - amount) || ',"from_at":'
    || coalesce(applied_at, interacted_at + :grace) || ',"to_at":' || :until || ',"grace_ends_at":'
    || (interacted_at + :grace) || ',"chapter":' || chapter || ',"rate":' || :rate || ',"due_at":'
    || (:until + :interval) || '}]'"""
_COMMAND = """'{"type":"SweepScore","at":' || :until || '}'"""

SQLITE_PICK = f"""
CREATE TEMP TABLE swept AS
WITH told AS MATERIALIZED (
    SELECT n, tenant, id, version, digest, state ->> 'score' AS score, state ->> 'chapter' AS chapter,
        state ->> 'status' AS status, state ->> 'created_at' AS created_at,
        state ->> 'interacted_at' AS interacted_at, state ->> 'applied_at' AS applied_at
    FROM stream WHERE tenant = :tenant AND kind = 'score' AND due_at <= :until
), owed AS MATERIALIZED (
    SELECT *, {_loss("score", "interacted_at", "applied_at", "min")} AS amount FROM told
), worded AS MATERIALIZED (
    SELECT n, tenant, id, version + 1 AS version, digest AS prev, 'hand-' || :now || '-' || n AS turn,
        {_STATE} AS state, {_EVENTS} AS events
    FROM owed
)
SELECT *, sha256(json_array(prev, tenant, 'score', id, version, turn, :now, 1, {_COMMAND}, events, :policy, NULL, NULL,
    NULL, '"decayed"', '', '', '')) AS digest
FROM worded
"""
SQLITE_UPDATE = """
UPDATE stream SET version = s.version, at = :now, digest = s.digest, due_at = :until + :interval, state = s.state
FROM swept AS s WHERE stream.n = s.n
"""
SQLITE_INSERT = f"""
INSERT INTO ledger (stream_n, tenant, kind, id, version, turn, at, schema, command, events, policy, prev, digest, reply,
                    actor, correlation, cause)
SELECT n, tenant, 'score', id, version, turn, :now, 1, {_COMMAND}, events, :policy, prev, digest, '"decayed"', '', '',
    ''
FROM swept
"""
SQLITE_PLAIN = f"""
UPDATE plain SET applied_at = :until, due_at = :until + :interval,
    score = score - {_loss("score", "interacted_at", "applied_at", "min")}
WHERE due_at <= :until
"""

POSTGRES_SAME_ROWS = f"""
WITH due AS MATERIALIZED (
    SELECT tenant, kind, id, version, digest AS prev, 'hand-' || :now || '-' || id AS turn, state::json AS j
    FROM @schema.stream WHERE tenant = :tenant AND kind = 'score' AND due_at <= :until FOR UPDATE
), told AS MATERIALIZED (
    SELECT tenant, id, version, prev, turn, (j ->> 'score')::bigint AS score, j ->> 'chapter' AS chapter,
        j ->> 'status' AS status, (j ->> 'created_at')::bigint AS created_at,
        (j ->> 'interacted_at')::bigint AS interacted_at, (j ->> 'applied_at')::bigint AS applied_at
    FROM due
), owed AS MATERIALIZED (
    SELECT *, {_loss("score", "interacted_at", "applied_at", "least")} AS amount FROM told
), worded AS MATERIALIZED (
    SELECT tenant, id, version + 1 AS version, prev, turn, {_STATE} AS state, {_EVENTS} AS events FROM owed
), picked AS MATERIALIZED (
    SELECT *, encode(sha256(convert_to('["' || prev || '","' || tenant || '","score","' || id || '",' || version || ',"'
        || turn || '",' || :now || ',1,' || to_json({_COMMAND})::text || ',' || to_json(events)::text || ',"' || :policy
        || '",null,null,null,"\\"decayed\\"","","",""]', 'UTF8')), 'hex') AS digest
    FROM worded
), moved AS (
    UPDATE @schema.stream AS t
    SET version = p.version, at = :now, digest = p.digest, due_at = :until + :interval, state = p.state
    FROM picked AS p WHERE t.tenant = p.tenant AND t.kind = 'score' AND t.id = p.id
)
INSERT INTO @schema.ledger (tenant, kind, id, version, turn, at, schema, command, events, policy, prev, digest, reply,
                            actor, correlation, cause)
SELECT tenant, 'score', id, version, turn, :now, 1, {_COMMAND}, events, :policy, prev, digest, '"decayed"', '', '', ''
FROM picked
"""
POSTGRES_PLAIN = f"""
UPDATE @schema.plain SET applied_at = :until, due_at = :until + :interval,
    score = score - {_loss("score", "interacted_at", "applied_at", "least")}
WHERE due_at <= :until
"""


def written_out(text: str, values: dict[str, Any], schema: str) -> str:
    """The statement with its values in place, for a driver that would have to be told each one's type."""
    for name, value in values.items():
        text = text.replace(f":{name}", f"{value}::bigint" if isinstance(value, int) else f"'{value}'::text")
    return text.replace("@schema", schema)


def sha256_of(*texts: Any) -> str:
    """What a person would add to SQLite for the digests."""
    return sha256(texts[0].encode()).hexdigest()
