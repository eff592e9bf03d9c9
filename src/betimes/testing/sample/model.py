"""Gates, the tenant's quota and the tally: commands, events, states."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from betimes.core.instants import Instant
from betimes.core.stored_message import StoredMessage
from betimes.core.windows import Window

HOUR_S = 3_600


class Knock(StoredMessage):
    visitor: str


class Shut(StoredMessage):
    """Admit nobody; whoever waits is turned away."""


class Open(StoredMessage): ...


class Count(StoredMessage):
    visitor: str


class Admitted(StoredMessage):
    visitor: str
    at: Instant


class Postponed(StoredMessage):
    visitor: str
    until_at: Instant


class TurnedAway(StoredMessage):
    visitor: str
    reason: str


class WasShut(StoredMessage): ...


class WasOpened(StoredMessage): ...


class Greeted(StoredMessage):
    status: str


class SlotTaken(StoredMessage):
    at: Instant


class Counted(StoredMessage):
    visitor: str


class Waiting(msgspec.Struct, frozen=True, array_like=True):
    visitor: str
    until_at: Instant


class GateState(msgspec.Struct, frozen=True, omit_defaults=True):
    shut: bool = False
    admitted: Window = ()
    admitted_count: int = 0
    turned_away_count: int = 0
    first_admitted_at: Instant | None = None
    last_admitted_at: Instant | None = None
    waiting: tuple[Waiting, ...] = ()
    greeted_count: int = 0


class QuotaState(msgspec.Struct, frozen=True):
    taken: Window = ()


class TallyState(msgspec.Struct, frozen=True):
    count: int = 0


GateCommands: TypeAlias = Knock | Shut | Open
GateEvents: TypeAlias = Admitted | Postponed | TurnedAway | WasShut | WasOpened | Greeted
