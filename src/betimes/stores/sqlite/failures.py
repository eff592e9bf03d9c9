"""SQLite's errors translated: which of the store's errors, naming the file and the next step.

Until COMMIT is sent nothing is written, whatever fails. COMMIT itself can fail in two ways. If SQLite reports an I/O
error, the transaction's pages may be in the log or not, and only the next transaction can tell: the outcome is
unknown. Any other failure leaves the log without a valid commit: nothing was written.
"""

from __future__ import annotations

import apsw

from betimes.core.errors import BetimesError, Conflict, DamagedStore, Fault, Unavailable, Unknown

LOCK_TIMEOUT_S = 5.0

_UNAVAILABLE: tuple[tuple[type[apsw.Error], str], ...] = (
    (apsw.BusyError, f"was locked by another process for {LOCK_TIMEOUT_S:g} s; try again, or see who holds it"),
    (apsw.LockedError, "is locked by another connection of this process; try again"),
    (apsw.FullError, "cannot grow: the disk is full; free some space and try again"),
    (apsw.ReadOnlyError, "cannot be written; make the file and its folder writable and try again"),
    (apsw.PermissionsError, "may not be used; make the file and its folder readable and writable and try again"),
    (apsw.CantOpenError, "cannot be opened; check that its folder exists and is writable"),
    (apsw.IOError, "cannot be read or written; check the disk, then try again"),
    (apsw.NoMemError, "needs more memory than there is; try again when some is free"),
)
_DAMAGED = (apsw.NotADBError, apsw.CorruptError)
_TAKEN = (apsw.SQLITE_CONSTRAINT_UNIQUE, apsw.SQLITE_CONSTRAINT_PRIMARYKEY, apsw.SQLITE_CONSTRAINT_ROWID)
_LASTING = (apsw.ReadOnlyError, apsw.PermissionsError, apsw.CantOpenError, apsw.IOError, *_DAMAGED)


def translate_error(error: apsw.Error, path: str) -> BetimesError:
    """Return the store's error for one of SQLite's that came before any commit.

    One that is not about the file, such as a value of the wrong type, is a bug and a `Fault`.
    """
    if isinstance(error, apsw.ConstraintError) and getattr(error, "extendedresult", 0) in _TAKEN:
        return Conflict(f"{path} holds a row of this name already: {error}")
    if isinstance(error, _DAMAGED):
        return DamagedStore(
            f"{path} is not a readable SQLite database ({error}); check the path, or restore the file from a backup"
        )
    advice = next((advice for kind, advice in _UNAVAILABLE if isinstance(error, kind)), None)
    return Unavailable(f"{path} {advice} ({error})") if advice else Fault(f"{path} refused what was written: {error}")


def translated_commit(error: apsw.Error, path: str) -> BetimesError:
    """The store's error for one that COMMIT itself met."""
    if isinstance(error, apsw.IOError):
        return Unknown(f"{path}: the commit met an I/O error ({error}); ask again under the same key")
    return translate_error(error, path)


def outlives_the_connection(error: apsw.Error) -> bool:
    """Return whether the connection may go on failing after the cause is gone, so that only a new one helps."""
    return isinstance(error, _LASTING)
