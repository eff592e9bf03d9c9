"""Every error betimes raises on purpose: one base class, and one stable code each with its statuses.

A message names the thing that is wrong and the next step. The line that defines an error gives its code the HTTP
status and the process exit code (after sysexits.h); no other place decides either. Store adapters raise exactly
five of these: `Conflict`, `Duplicate`, `Fenced`, `Unavailable` and `Unknown`.
"""

from __future__ import annotations

from typing import ClassVar

STATUS: dict[str, tuple[int, int]] = {"INTERNAL": (500, 70)}
"""The HTTP status and exit code of every code; the errors below add theirs."""


class BetimesError(Exception):
    """Something went wrong that the caller can act upon."""

    code: ClassVar[str] = "INTERNAL"

    def __init_subclass__(cls, *, code: str | None = None, http: int = 500, exits: int = 70) -> None:
        if code is not None:
            cls.code = code
            STATUS[code] = http, exits

    @property
    def http_status(self) -> int:
        return STATUS[self.code][0]

    @property
    def exit_code(self) -> int:
        return STATUS[self.code][1]


PROBLEMS_MAX = 20
"""Problems of one request that are described; the others are counted."""


class Invalid(BetimesError, code="INVALID", http=422, exits=65):
    """The request is not valid; `problems` lists the first bad fields as (path, message), `total` says how many are."""

    def __init__(self, message: str, problems: tuple[tuple[str, str], ...] = (), total: int = 0) -> None:
        super().__init__(message)
        self.problems = problems[:PROBLEMS_MAX]
        # A caller that stopped listing knows of more than it passes on.
        self.total = max(total, len(problems))


class TooLarge(BetimesError, code="TOO_LARGE", http=413, exits=65):
    """A payload, state or event is over its bound; the message names both."""


class UnknownKind(BetimesError, code="UNKNOWN_KIND", http=422, exits=65):
    """No decider is registered for this kind of stream."""


class NotFound(BetimesError, code="NOT_FOUND", http=404, exits=66):
    """There is no such stream, segment or effect."""


class KeyConflict(BetimesError, code="IDEMPOTENCY_CONFLICT", http=409, exits=65):
    """The idempotency key was used for a different request."""


class MissingScope(BetimesError, code="MISSING_SCOPE", http=403, exits=77):
    """The caller's key may not do this; the message names the scope it lacks."""


class VersionMismatch(BetimesError, code="VERSION_MISMATCH", http=412, exits=75):
    """The definition was changed since the version the caller saw; read it again."""


class Refused(BetimesError, code="REFUSED", http=409, exits=65):
    """A decider refused the command; `reason` is the domain's own code and nothing was written."""

    def __init__(self, reason: str, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after_s = retry_after_s
        """After which it may be otherwise, where that is known."""


class Fault(BetimesError):
    """A decider or handler failed in a way it should not; the stream is named, nothing was written for it."""


class WakeFailed(Fault):
    """A command cannot be decided because its stream's alarm is due and its wake fails; nothing was written for it."""


class Overloaded(BetimesError, code="OVERLOADED", http=503, exits=75):
    """A queue is at its bound, or the engine is closing; nothing was accepted, try again later."""


class MalformedRow(BetimesError, code="MALFORMED_ROW", http=500, exits=65):
    """A stored row cannot be read back; run `verify` to see what changed."""


class DamagedStore(MalformedRow):
    """The database itself is damaged where this is; run `verify`, and restore it from a backup."""


class NewerVersion(BetimesError, code="NEWER_VERSION", http=500, exits=78):
    """The data was written by a newer betimes; upgrade this process, writing would lose what it does not know."""


class UnsafeDurability(BetimesError, code="UNSAFE_DURABILITY", http=500, exits=78):
    """The database would lose acknowledged work on a power cut; fix the setting or ask for durability=relaxed."""


class MissingExtra(BetimesError, code="EXTRA_NOT_INSTALLED", http=501, exits=69):
    """An optional dependency is not installed; the message has the command that installs it."""


class PolicyInvalid(Invalid):
    """A policy that cannot work; every problem carries its path."""


class StoreError(BetimesError):
    """An error that a store may raise instead of doing the work."""


class Conflict(StoreError, code="VERSION_CONFLICT", http=409, exits=75):
    """A stream's version moved, or the database broke the transaction off; nothing was written, decide again."""


class Duplicate(StoreError, code="DUPLICATE_KEY", http=409, exits=65):
    """The idempotency key is on record already; nothing was written."""


class Fenced(StoreError, code="CLAIM_LOST", http=409, exits=75):
    """Another process holds the lease now; nothing was written."""


class Unavailable(StoreError, code="STORE_UNAVAILABLE", http=503, exits=75):
    """The store cannot be reached or cannot write; nothing was written, try later."""


class Unknown(StoreError, code="OUTCOME_UNKNOWN", http=503, exits=75):
    """The commit was sent and its outcome is not known; ask again under the same key, never under a new one."""
