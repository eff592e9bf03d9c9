"""One transaction: `begin_batch` when it starts and when it asks for more, `commit_batch` and COMMIT when it ends.

**One command on one stream**, which is what an idle engine has to do, begins with `begin_turn` and ends with
`commit_turn`: the same steps without the arrays, at about two thirds of the cost.

**A small batch is written and committed in one message**, its values written out as literals; so whoever loses the
connection while it writes cannot know whether it committed. A larger one is cheaper to send as parameters.

**What is asked for is sorted here**, as Python sorts tuples of text, which is the order of `COLLATE "C"`: whoever waits
for rows, and then for keys, waits in the same order as everybody else.

**Why nobody waits in a circle.** A transaction creates the missing rows it waits for, locks the ones that exist, then
reserves keys. One that waits to create a row holds only rows it created that sort before it. One that waits for a row
that exists holds rows that sort before it, and rows it created, for which nobody past that step can be waiting: they
would have waited, or created the row, while creating. One that waits for a key holds keys that sort before it, and its
rows are waited for only by transactions that hold no keys. Rows that are not waited for are taken if they are free.
`extend` waits for no row at all; it may wait for keys, and so may meet another one that does. That, and a decision that
creates a stream it did not lock while somebody else locks that name, are the circles that remain; the server breaks
them after a second, as `Conflict`.

**Rows that do not exist.** An insert waits for an uncommitted one of the same name, and no lock can be skipped that is
not there to be seen. So `create_free` tries with a lock time-out of 1 ms: a row somebody else is creating is left out
like a row somebody holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import msgspec

from betimes.core.instants import Instant
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine.store import Changes, LockRequest, Row, SeenKey
from betimes.stores.postgres.rows import Record, Values, change_arrays, lock_values, seen_key, turn_values
from betimes.stores.postgres.session import Session
from betimes.stores.postgres.statements import Prepared

SCRIPT_MAX = 4
"""Up to so many segments are cheaper to write out as literals than a round trip for the COMMIT is."""


class Dialect(NamedTuple):
    """How the transactions of one store speak to its server."""

    statement: Callable[..., Prepared]
    script: Callable[..., str | None]
    clock: Callable[[], Instant] | None
    hear: Callable[[Instant], None]
    """Told of the server's time with every answer that has it."""


class PostgresTx:
    """A transaction that holds its locks; see the contract's `Tx`."""

    _session: Session

    def __init__(self, dialect: Dialect) -> None:
        self._statement, self._script, self._clock, self._hear = dialect
        self._order: dict[str, list[Any]] = {}
        self._reserved: set[KeyId] = set()
        self._at_zero: set[StreamId] = set()
        self.now: Instant = 0
        self.rows: dict[StreamId, Row] = {}
        self.unchanged: set[StreamId] = set()
        self.seen: dict[KeyId, SeenKey] = {}
        self.sends: set[EffectId] = set()

    def start(self, session: Session, answer: list[Record]) -> Self:
        """Go on with the answer to what `asks` said."""
        self._session = session
        self.now = self._take_in(answer)
        return self

    async def extend(self, ask: LockRequest) -> None:
        self._take_in(await self._session.rows(self.asks(ask, waiting=False)))

    def asks(self, ask: LockRequest, *, waiting: bool = True) -> Prepared:
        """The statement that asks; its answer speaks of places in the order that is kept here."""
        if waiting and len(ask.locks) == 1 and len(ask.keys) <= 1 and not ask.waits and not ask.sends:
            [(stream, cached)] = ask.locks.items()
            key = ask.keys[0] if ask.keys else None
            if key is None or key.tenant == stream.tenant:
                return self._asks_one(stream, cached, key, ask.reads)
        waits = ask.waits & ask.locks.keys() if waiting else frozenset()
        order: dict[str, list[Any]] = {
            "wait": sorted(waits),
            "skip": sorted(ask.locks.keys() - waits if waits else ask.locks),
            "read": sorted(ask.reads),
            "seen": sorted(set(ask.keys)),
            "send": sorted(set(ask.sends)),
        }
        self._order = order
        return self._statement(
            "begin_batch",
            waits=lock_values(ask.locks, order["wait"]),
            skips=lock_values(ask.locks, order["skip"]),
            reads=lock_values(ask.reads, order["read"]),
            keys=order["seen"],
            sends=order["send"],
        )

    def _asks_one(self, stream: StreamId, cached: int, key: KeyId | None, reads: Mapping[StreamId, int]) -> Prepared:
        order = sorted(reads)
        self._order = {"skip": [stream], "read": order, "seen": [key] if key else []}
        return self._statement(
            "begin_turn",
            tenant=stream.tenant,
            kind=stream.kind,
            id=stream.id,
            cached=cached,
            collection=key and key.collection,
            key=key and key.key,
            reads=lock_values(reads, order),
        )

    def _take_in(self, answer: list[Record]) -> Instant:
        """Take the answer in; the time it was given at."""
        order, now = self._order, 0
        self.unchanged.update(order["read"])  # unless the answer says otherwise
        for part, place, version, schema, state, at, alarm_at, digest in answer:
            match part:
                case "skip" | "wait" | "read":
                    stream = order[part][place - 1]
                    # The row is at the version that is cached, so its columns were not sent.
                    if schema is None:
                        self.unchanged.add(stream)
                    else:
                        self.unchanged.discard(stream)
                        self.rows[stream] = Row(version, schema, state, at, alarm_at, digest)
                    # Made by this transaction so that it could be locked; the commit removes it again unless it is
                    # written.
                    if version == 0 and part != "read":
                        self._at_zero.add(stream)
                case "clock":
                    now = version
                    self._hear(place)
                case "same":
                    same = order["skip"]
                    if place < len(same):
                        same = [same[number - 1] for number in msgspec.json.decode(state or "[]")]
                    self.unchanged.update(same)
                case "seen":
                    self.seen[order[part][place - 1]] = seen_key(msgspec.json.decode(state))
                case _:
                    self.sends.add(order[part][place - 1])
        # Whatever was reserved and is not used must be freed by the commit, or the key would look taken.
        self._reserved |= set(order["seen"]) - self.seen.keys()
        return self._clock() if self._clock else now

    async def commit(self, changes: Changes) -> None:
        if not any(getattr(changes, field) for field in changes.__struct_fields__):
            await self._session.roll_back()
            return
        # Sorted, so that two processes that save the same policies do not wait for each other in a circle.
        for fingerprint, body in sorted(changes.policies.items()):
            await self._session.rows(self._statement("save_policy", fingerprint=fingerprint, body=body))
        if len(changes.segments) <= SCRIPT_MAX and (script := self._writing(changes)):
            await self._session.commit(script)
        else:
            await self._session.rows(self._statement("commit_batch", **self._everything(changes)))
            await self._session.commit()

    def _writing(self, changes: Changes) -> str | None:
        """Return the script of a small batch, to be sent with other statements; `None` if a text cannot be in one."""
        if turn := self._turn(changes):
            return self._script("commit_turn", **turn)
        return self._script("commit_batch", **self._everything(changes))

    def _turn(self, changes: Changes) -> dict[str, Any] | None:
        """Return what `commit_turn` takes, if that is all there is to do."""
        turn = turn_values(changes)
        if turn is None or not self._at_zero <= {write.stream for write in changes.streams}:
            return None
        return turn if self._reserved <= {write.key for write in changes.keys} else None

    def _everything(self, changes: Changes) -> dict[str, list[Values] | None]:
        written = {write.stream for write in changes.streams}
        used = {write.key for write in changes.keys}
        return change_arrays(changes) | {
            "unwritten": sorted(self._at_zero - written) or None,
            "unused": sorted(self._reserved - used) or None,
        }

    async def turn_at(self, stream: StreamId, version: int) -> str | None:
        found: str | None = await self._session.value(self._statement("turn_at", **stream._asdict(), version=version))
        return found
