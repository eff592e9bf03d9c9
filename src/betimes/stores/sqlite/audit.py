"""Looking at the whole file in one snapshot: what SQLite says of it, the head, and rows that lead nowhere."""

from __future__ import annotations

from betimes.core.instants import Instant
from betimes.core.segments import Head, head_part
from betimes.engine.audit import FINDINGS_MAX, StoreAudit, policy_problems
from betimes.engine.store import PAGE_MAX
from betimes.stores.sqlite.connection import Connection

_CHECKS = {
    "astray_keys": ("key", "no segment has this idempotency key"),
    "lost_keys": ("segment", "its idempotency key is missing"),
    "astray_effects": ("effect", "its segment is missing, or its columns contradict each other"),
    "lost_policies": ("policy", "segments name it, but it is missing"),
}


def audit(connection: Connection, now: Instant, keys_since: Instant | None) -> StoreAudit:
    connection.begin_snapshot()
    try:
        return _audit(connection, now, keys_since)
    finally:
        # Nothing was written: this only ends the snapshot.
        connection.rollback()


def _audit(connection: Connection, now: Instant, keys_since: Instant | None) -> StoreAudit:
    damage = [("the file", told) for [told] in connection.json("damage", {})]
    *recorded, unrecorded, until = connection.json("recorded_head", {})
    found, last_at = _found_head(connection)
    report = StoreAudit(Head(*recorded), found, unrecorded, until, last_at, damage)
    for name, (what, told) in _CHECKS.items():
        # Without knowing how long keys are kept, one that is missing may just have been forgotten.
        if name == "lost_keys" and keys_since is None:
            continue
        asked = {"now": now, "since_at": keys_since, "limit": FINDINGS_MAX}
        wanted = {key: value for key, value in asked.items() if key == "limit" or key in _BOUND.get(name, ())}
        report.problems += [(f"{what} {row}", told) for [row] in connection.json(name, wanted)]
    report.problems += policy_problems(connection.json("policies", {}))
    return report


_BOUND = {"astray_keys": ("now",), "lost_keys": ("since_at",)}


def _found_head(connection: Connection) -> tuple[Head, Instant | None]:
    """Add up what the streams end in, page by page, in the snapshot that is open."""
    segments = digest = after = 0
    last_at: Instant | None = None
    while rows := connection.json("stream_heads", {"after": after, "limit": PAGE_MAX}):
        for after, version, ended, at in rows:  # noqa: B007 — the last row is where the next page begins
            segments += version
            digest += head_part(ended)
            last_at = at if last_at is None else max(last_at, at)
    return Head(segments, digest, connection.value("count_effects", {})), last_at
