"""Every error betimes raises on purpose: one base class, one stable code each, one table of statuses.

A message names the thing that is wrong and the next step. `STATUS` gives each code its HTTP status and
its process exit code; no other place decides either. Store adapters raise exactly five of these:
`Conflict`, `Duplicate`, `Fenced`, `Unavailable` and `Unknown`.
"""

from __future__ import annotations

from typing import ClassVar


class BetimesError(Exception):
    """Something went wrong that the caller can act upon."""

    code: ClassVar[str] = "INTERNAL"

    @property
    def http_status(self) -> int:
        return STATUS[self.code][0]

    @property
    def exit_code(self) -> int:
        return STATUS[self.code][1]


PROBLEMS_MAX = 20
"""Problems of one request that are described; the others are counted."""


class Invalid(BetimesError):
    """The request is not valid; `problems` lists the first bad fields as (path, message), `total` says how many are."""

    code = "INVALID"

    def __init__(self, message: str, problems: tuple[tuple[str, str], ...] = (), total: int = 0) -> None:
        super().__init__(message)
        self.problems = problems[:PROBLEMS_MAX]
        # A caller that stopped listing knows of more than it passes on.
        self.total = max(total, len(problems))


class TooLarge(BetimesError):
    """A payload, state or event is over its bound; the message names both."""

    code = "TOO_LARGE"


class UnknownKind(BetimesError):
    """No decider is registered for this kind of stream."""

    code = "UNKNOWN_KIND"


class NotFound(BetimesError):
    """There is no such stream, segment or effect."""

    code = "NOT_FOUND"


class KeyConflict(BetimesError):
    """The idempotency key was used for a different request."""

    code = "IDEMPOTENCY_CONFLICT"


class MissingScope(BetimesError):
    """The caller's key may not do this; the message names the scope it lacks."""

    code = "MISSING_SCOPE"


class VersionMismatch(BetimesError):
    """The definition was changed since the version the caller saw; read it again."""

    code = "VERSION_MISMATCH"


class Refused(BetimesError):
    """A decider refused the command; `reason` is the domain's own code and nothing was written."""

    code = "REFUSED"

    def __init__(self, reason: str, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after_s = retry_after_s
        """After which it may be otherwise, where that is known."""


class Fault(BetimesError):
    """A decider or handler failed in a way it should not; the stream is named, nothing was written for it."""

    code = "INTERNAL"


class WakeFailed(Fault):
    """A command cannot be decided because its stream's alarm is due and its wake fails; nothing was written for it."""


class Overloaded(BetimesError):
    """A queue is at its bound, or the engine is closing; nothing was accepted, try again later."""

    code = "OVERLOADED"


class MalformedRow(BetimesError):
    """A stored row cannot be read back; run `verify` to see what changed."""

    code = "MALFORMED_ROW"


class DamagedStore(MalformedRow):
    """The database itself is damaged where this is; run `verify`, and restore it from a backup."""


class NewerVersion(BetimesError):
    """The data was written by a newer betimes; upgrade this process, writing would lose what it does not know."""

    code = "NEWER_VERSION"


class UnsafeDurability(BetimesError):
    """The database would lose acknowledged work on a power cut; fix the setting or ask for durability=relaxed."""

    code = "UNSAFE_DURABILITY"


class MissingExtra(BetimesError):
    """An optional dependency is not installed; the message has the command that installs it."""

    code = "EXTRA_NOT_INSTALLED"


class PolicyInvalid(Invalid):
    """A policy that cannot work; every problem carries its path."""


class StoreError(BetimesError):
    """An error that a store may raise instead of doing the work."""


class Conflict(StoreError):
    """A stream's version moved, or the database broke the transaction off; nothing was written, decide again."""

    code = "VERSION_CONFLICT"


class Duplicate(StoreError):
    """The idempotency key is on record already; nothing was written."""

    code = "DUPLICATE_KEY"


class Fenced(StoreError):
    """The lease was lost to somebody else; nothing was written."""

    code = "CLAIM_LOST"


class Unavailable(StoreError):
    """The store cannot be reached or cannot write; nothing was written, try later."""

    code = "STORE_UNAVAILABLE"


class Unknown(StoreError):
    """The commit was sent and its outcome is not known; ask again under the same key, never under a new one."""

    code = "OUTCOME_UNKNOWN"


STATUS: dict[str, tuple[int, int]] = {
    # code: (HTTP status, exit code after sysexits.h)
    "INTERNAL": (500, 70),
    "INVALID": (422, 65),
    "TOO_LARGE": (413, 65),
    "UNKNOWN_KIND": (422, 65),
    "NOT_FOUND": (404, 66),
    "IDEMPOTENCY_CONFLICT": (409, 65),
    "MISSING_SCOPE": (403, 77),
    "VERSION_MISMATCH": (412, 75),
    "REFUSED": (409, 65),
    "OVERLOADED": (503, 75),
    "MALFORMED_ROW": (500, 65),
    "NEWER_VERSION": (500, 78),
    "UNSAFE_DURABILITY": (500, 78),
    "EXTRA_NOT_INSTALLED": (501, 69),
    "VERSION_CONFLICT": (409, 75),
    "DUPLICATE_KEY": (409, 65),
    "CLAIM_LOST": (409, 75),
    "STORE_UNAVAILABLE": (503, 75),
    "OUTCOME_UNKNOWN": (503, 75),
}
