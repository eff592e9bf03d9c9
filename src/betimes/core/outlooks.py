"""Outlooks: what a stream waits for, and the bands and windows of a person's or an account's day.

Domains derive them from a state, for people who look; no decision reads them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from betimes.core.instants import Instant

Subject: TypeAlias = Literal["user_id", "account_id"]
BandName: TypeAlias = Literal["quiet_hours", "digest", "cooldown", "debounce", "incident", "ban", "grace", "paused"]


class WaitingItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that waits in a stream."""

    at: Instant
    """When it is looked at again."""
    what: str
    """Such as an event type, a type of trigger, or the name of an action."""
    key: str = ""
    """The event id or key of the request."""
    segment: int = 0
    """The version of the segment that brought it, where it is known."""
    reasons: tuple[str, ...] = ()
    would_pass_at: Instant | None = None


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time in which something holds; without an end it lasts."""

    name: BandName
    since_at: Instant
    until_at: Instant | None
    label: str = ""


class WindowFill(msgspec.Struct, frozen=True, kw_only=True):
    """A sliding window, what counts in it, and its cap."""

    name: str
    span_s: int
    cap: int
    counted: tuple[Instant, ...]
    """The instants that count, ascending."""


class Prospect(msgspec.Struct, frozen=True, kw_only=True):
    """An instant at which something happens if nothing else does."""

    name: str
    at: Instant
    value: str = ""


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """The events of one stream between two instants."""

    timezone: str = ""
    """Of the person, where the stream knows it."""
    bands: tuple[Band, ...] = ()
    fills: tuple[WindowFill, ...] = ()
    prospects: tuple[Prospect, ...] = ()


class SubjectStreams(msgspec.Struct, frozen=True):
    """The streams of a kind that are about a person or an account: the one of that id, or those of that owner."""

    subject: Subject
    kind: str
    by_owner: bool = False
