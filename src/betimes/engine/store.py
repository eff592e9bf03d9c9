"""The store contract: what a database must do for betimes, and nothing more.

    async with store.begin(ask) as tx:      locks; states that moved since cached, seen keys, store time
        ... decide every command of the batch ...
        await tx.commit(changes)            all or nothing

**What the store is authoritative for.** The version of every stream, the keys that were used, the effects that are
owed, and (except under an injected clock) what time it is. Everything a process holds in memory is a cache of this,
trusted only for a stream whose locked version equals the cached one.

**Two guards.** A batch locks its streams first and decides under the locks; at the commit every version is compared
all the same. Either guard alone makes it impossible to decide twice for one cause. (A store may offer to lock only
then, and to compare everything: `Presumes`.)

**Order inside `begin`**, sorted within each step: create missing rows at version 0 (a row that is not there cannot be
locked), lock the rows, reserve the keys, take the sends, read the clock. The rows named in `waits` are locked first and
waited for, up to the store's lock time-out; the others are then locked if they are free and left out of `rows` and
`unchanged` if somebody holds them. So whoever waits for a row holds only rows that sort before it, and nobody can wait
in a circle. Keys are always waited for, after the rows. Rows asked for under `reads` are read last and not locked.

**Leaving the context without a commit** undoes everything, reservations included. A commit frees the reservations the
changes do not use and removes rows still at version 0.

**Errors.** A store raises `Conflict`, `Duplicate`, `Fenced`, `Unavailable` or `Unknown` and no other. All but `Unknown`
promise that nothing was written. After `Unknown`, whoever locks one of the batch's streams again sees either all of the
batch or none of it (`tx.turn_at` tells), because the lost transaction holds its locks until it has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, Unpack, runtime_checkable

import msgspec

from betimes.core.instants import Instant
from betimes.core.segments import Segment
from betimes.core.streams import EffectId, KeyId, StreamId
from betimes.engine.effect_rows import Attempt as Attempt
from betimes.engine.effect_rows import EffectRow as EffectRow
from betimes.engine.effect_rows import Lease as Lease
from betimes.engine.queries import Backlog as Backlog
from betimes.engine.queries import DueBounds as DueBounds
from betimes.engine.queries import DueTenants as DueTenants
from betimes.engine.queries import EffectQuery as EffectQuery
from betimes.engine.queries import EffectStatus as EffectStatus
from betimes.engine.queries import LedgerQuery as LedgerQuery
from betimes.engine.queries import Reached as Reached
from betimes.engine.queries import SendBounds as SendBounds
from betimes.engine.queries import StreamQuery as StreamQuery
from betimes.engine.queries import WaitingSend as WaitingSend
from betimes.engine.read_model import ReadModel

DueIndex: TypeAlias = Literal["alarm", "due"]
OwedIndex: TypeAlias = Literal["alarm", "due", "call"]
PAGE_MAX = 1_000
NOT_CACHED = -1


class LockRequest(msgspec.Struct, frozen=True):
    """The needs of a transaction: streams with the version the caller has cached (`NOT_CACHED`: none), keys, sends."""

    locks: Mapping[StreamId, int] = {}
    reads: Mapping[StreamId, int] = {}
    keys: Sequence[KeyId] = ()
    sends: Sequence[EffectId] = ()
    """Commands to other streams to apply; of each source its oldest are taken, up to the first that is not free."""
    waits: AbstractSet[StreamId] = frozenset()
    """Those of `locks` to wait for if they are held."""


class Row(NamedTuple):
    """A stream's row as its last segment left it. `state` is `None` before it exists and after it was deleted."""

    version: int
    schema: int
    state: str | None
    at: Instant
    alarm_at: Instant | None
    digest: str


NO_ROW = Row(0, 0, None, 0, None, "")


class SeenKey(NamedTuple):
    """A key that was used before: what the request was, and the segment it led to."""

    request: str
    segment: Segment


class StreamWrite(msgspec.Struct, frozen=True, gc=False):
    """A stream's new row, at most one per batch; refused with `Conflict` unless the stored version is `expected`.

    A stream that was not locked may be created, with 0 expected.
    """

    stream: StreamId
    expected: int
    version: int
    schema: int
    state: str | None
    at: Instant
    alarm_at: Instant | None
    digest: str
    status: str
    owner: str
    due_at: Instant | None
    listed_at: Instant | None = None

    def row(self) -> Row:
        """Return the row it leaves."""
        return Row(self.version, self.schema, self.state, self.at, self.alarm_at, self.digest)


class KeyWrite(msgspec.Struct, frozen=True, gc=False):
    """A reserved key that is now used."""

    key: KeyId
    request: str
    stream: StreamId
    version: int
    expires_at: Instant


class EffectWrite(msgspec.Struct, frozen=True, gc=False):
    """A new effect. `to` is the target of a send (whose executor is `SEND`), or whom the end of a call is told.

    `is_leased`: whoever writes it takes it in the same commit, as its first attempt under the fence 1; its lease ends
    at `next_attempt_at`.
    """

    id: EffectId
    executor: str
    payload: str
    created_at: Instant
    next_attempt_at: Instant
    at_most_once: bool = False
    attempts_max: int = 1
    lease_s: int = 60
    to: StreamId | None = None
    is_leased: bool = False


SEND = "send"

ATTEMPTS_KEPT = 20
"""Of an effect: how many of its last attempts are on record."""
LEASE_RAN_OUT = "its lease ran out"
"""The error of an attempt that was never settled."""


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """The end of an attempt; refused with `Fenced` unless `fence` is still the effect's lease."""

    id: EffectId
    fence: int
    status: EffectStatus
    at: Instant
    next_attempt_at: Instant | None = None
    error: str = ""
    duration_ms: int | None = None


class DeadSend(msgspec.Struct, frozen=True, gc=False):
    """A send this transaction took whose target could not decide it; kept as a dead letter, out of its source's way."""

    id: EffectId
    at: Instant
    error: str


class Changes(msgspec.Struct):
    """Everything a batch writes, in the order it was decided."""

    streams: list[StreamWrite] = []
    segments: list[Segment] = []
    keys: list[KeyWrite] = []
    effects: list[EffectWrite] = []
    sends_applied: list[EffectId] = []
    """Removed; refused with `Fenced` if one is gone already."""
    sends_dead: list[DeadSend] = []
    settlements: list[Settlement] = []
    policies: dict[str, str] = {}
    """Bodies by fingerprint, of policies these segments name; one that is kept already stays as it is."""


class Tx(Protocol):
    """A transaction that holds its locks. Of the streams asked for, `rows` moved since cached, `unchanged` did not."""

    now: Instant
    rows: dict[StreamId, Row]
    unchanged: set[StreamId]
    seen: dict[KeyId, SeenKey]
    sends: set[EffectId]

    async def extend(self, ask: LockRequest) -> None:
        """Ask for more. It may wait for keys but never for rows, so that whoever waits for its rows is soon served."""

    async def commit(self, changes: Changes) -> None:
        """Write everything, or nothing and raise."""

    async def turn_at(self, stream: StreamId, version: int) -> str | None:
        """The turn that wrote this version, to tell after `Unknown` whether it was ours."""


@runtime_checkable
class Presumes(Protocol):
    """A store that can lock, compare, write and commit in one go, which spares an idle engine a round trip."""

    def presume(self, ask: LockRequest) -> AbstractAsyncContextManager[Tx] | None:
        """A transaction that has locked nothing yet and takes all that was asked for to be as it is cached.

        Its commit locks first, in the order of `begin`, and compares; it raises `Conflict` or `Duplicate` if a version
        has moved, a row is held or a key was used, and `Unavailable` if it must be asked for. Its `now` is not ahead of
        the store's. Once it has raised `Unknown` it cannot begin any more. `None` where the ask is not one to presume.
        """


def is_presumable(ask: LockRequest) -> bool:
    """Return whether everything is cached, and nothing must be waited for or taken."""
    if ask.sends or ask.waits or not ask.locks or NOT_CACHED in ask.reads.values():
        return False
    return all(version > 0 for version in ask.locks.values())


class StreamRow(NamedTuple):
    """A stream as it is listed, without its state's meaning."""

    stream: StreamId
    version: int
    schema: int
    state: str | None
    at: Instant
    alarm_at: Instant | None
    status: str
    owner: str
    due_at: Instant | None
    digest: str
    snooze_until: Instant | None
    created_at: Instant
    """The instant of its first segment, kept for ever."""
    listed_at: Instant | None = None
    snooze_error: str | None = None

    @classmethod
    def of(cls, stream: StreamId, *columns: Any) -> StreamRow:
        """Return the row with these columns; the error of a snooze that has ended is left where it was."""
        row = cls(stream, *columns)
        return row if row.snooze_until is not None or row.snooze_error is None else row._replace(snooze_error=None)


class Store(ReadModel, Protocol):
    """A place that keeps streams, their ledger, keys, effects and policies, and answers questions about them."""

    async def open(self) -> None:
        """Bring the schema up to date and check that the database is durable; safe when several start together."""

    async def close(self) -> None:
        """Give everything back; a store can be opened again."""

    async def check_writable(self) -> None:
        """Try what a commit needs (its lock, and room for it) and change nothing; raise `Unavailable` with why not."""

    async def now(self) -> Instant:
        """The store's time."""

    def pass_over(self, held: Mapping[str, Sequence[str]]) -> None:
        """From now on, take nothing to be due of these kinds of streams of these tenants, in this process.

        Their alarms, `due_at` and calls, and the sends they left, are passed over by `begin_due`, `due_tenants`,
        `next_due`, `lease_calls`, `waiting_sends` and `backlog`, as if they were not there. What is asked for by name,
        and all lists, are as ever.
        """

    def begin(self, ask: LockRequest) -> AbstractAsyncContextManager[Tx]:
        """Lock, reserve and read what a batch needs."""

    def begin_due(
        self, index: DueIndex, kinds: Sequence[str], limit: int, **bounds: Unpack[DueBounds]
    ) -> AbstractAsyncContextManager[Tx]:
        """Lock up to `limit` streams due at the store's time (or at `until_at`, if earlier), oldest first.

        `after`, by `due` only, is where somebody has come who takes all of it, batch by batch, in whatever order.
        Streams that were due before it are passed over, and must not even be looked at: there may be millions of them.
        A store that can do without may take those of the oldest that lie nearest behind it, which spares it pages to
        write. Streams held by somebody else are skipped. The index `alarm` heeds snoozes. With `shares`, which does not
        go with `after` or `tenant`, only those of these tenants are taken, of each at most so many: first the oldest of
        each, then the next of each.
        """

    async def due_tenants(self, index: OwedIndex, names: Sequence[str], *, after: str = "", limit: int) -> DueTenants:
        """Look at the next `limit` tenants after one that wait for anything; which of them have something due now.

        `names` are kinds, or the executors of calls. Its cost must not depend on how much is due.
        """

    async def next_due(
        self, index: DueIndex, kinds: Sequence[str], executors: Sequence[str] = (), *, tenant: str | None = None
    ) -> Instant | None:
        """The earliest instant at which a stream of these kinds, or a call for these executors, is due."""

    async def snooze(self, stream: StreamId, version: int, until: Instant, error: str = "") -> None:
        """Let a wake that failed rest, with why, beside the state; any later commit to the stream ends it."""

    async def lease_calls(
        self, executors: Sequence[str], limit: int, *, shares: Mapping[str, int] | None = None
    ) -> list[Lease]:
        """Take calls that are due for these executors, each with a fence; a lease that ran out may be taken again.

        The oldest first; with `shares` only of these tenants, of each at most so many.
        """

    async def renew_lease(self, effect: EffectId, fence: int) -> None:
        """Extend a lease by its own length, or raise `Fenced`."""

    async def waiting_sends(self, limit: int, **bounds: Unpack[SendBounds]) -> list[WaitingSend]:
        """Return the oldest sends that nobody has applied (to these kinds), `after` the last of the page before."""

    async def effects(self, query: EffectQuery) -> list[EffectRow]: ...

    async def revive_effect(self, effect: EffectId) -> bool:
        """Give a dead letter fresh attempts; `False` when it is not one."""

    async def discard_effect(self, effect: EffectId) -> bool:
        """Remove a dead letter; `False` when it is not one."""

    async def revive_effects(self, effects: Sequence[EffectId]) -> list[EffectId]:
        """Give dead letters of one tenant fresh attempts in one commit; return those that were."""

    async def discard_effects(self, effects: Sequence[EffectId]) -> list[EffectId]:
        """Remove dead letters of one tenant in one commit; return those that were."""

    async def load(self, streams: Sequence[StreamId]) -> dict[StreamId, Row]:
        """Rows of streams that have a history, deleted ones too, without locks."""

    async def seen(self, key: KeyId) -> SeenKey | None:
        """Return what a key was used for, while it is kept."""

    async def streams(self, query: StreamQuery) -> list[StreamRow]: ...

    async def history(self, stream: StreamId, after_version: int, limit: int) -> tuple[StreamRow | None, list[Segment]]:
        """A stream's row and a page of its segments, both from one snapshot."""

    async def ledger(self, query: LedgerQuery) -> list[Segment]:
        """A page of segments in commit order; none can appear later before one already returned."""

    async def policy(self, fingerprint: str) -> str | None:
        """The body of a policy that a segment names."""

    async def replace_history(self, checkpoint: Segment) -> int:
        """Put the checkpoint in place of the segments up to its version, unless a live key needs one; how many went.

        It stands in the ledger where the last of them stood.
        """

    async def forget(self, *, before_at: Instant, limit: int) -> int:
        """Remove keys that have expired and calls that ended before the instant, at most `limit` of each.

        Dead letters are kept until somebody revives or discards them.
        """

    async def backlog(self, kinds: Sequence[str]) -> Backlog: ...
