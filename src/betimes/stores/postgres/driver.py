"""The driver, asyncpg, imported when a store is made and not before; and what of its errors the contract knows.

A store promises five errors and no other. `refused` says which one an error of the driver or of the server is:

- a version, key or lease that is not as expected has a SQLSTATE of its own (`BT001`–`BT003`, see
  `functions/commit.sql`);
- a deadlock or serialisation failure broke the transaction off: `Conflict`, decide again;
- everything else means that nothing was written: `Unavailable`, unless the connection was lost while something that
  commits was under way. Then, and only then, the outcome is `Unknown`.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType
from urllib.parse import parse_qs, unquote, urlsplit

from betimes.core.errors import Conflict, Duplicate, Fenced, Invalid, MissingExtra, StoreError, Unavailable, Unknown

_REFUSALS: dict[str, type[StoreError]] = {
    "BT001": Conflict,
    "BT002": Duplicate,
    "BT003": Fenced,
    "40001": Conflict,  # serialization_failure
    "40P01": Conflict,  # deadlock_detected
    "23505": Conflict,  # unique_violation: the version is on the ledger already
}

_FUNCTIONS_GONE = (
    "the functions this process calls are missing; if a newer betimes has migrated the database, restart this process"
    " with that one, else open() the store first"
)
_NEXT_STEPS: dict[str, str] = {
    "55P03": "another transaction held what was asked for until the lock time-out; try again",
    "25006": "it is read-only; point the DSN at the primary",
    "25P03": "the transaction stood idle for too long and was ended by the server; try again",
    "53100": "its disk is full; make room",
    "53200": "it is out of memory; lower the number of connections or raise max_locks_per_transaction",
    "53300": "it has too many connections; lower pool_max or raise max_connections",
    "28000": "the login was refused; check the user in the DSN",
    "28P01": "the login was refused; check the user and password in the DSN",
    "3D000": "there is no such database; create it or correct the DSN",
    "42501": "the role lacks a privilege; grant it, or run the migrations with a role that has it",
    "42P01": "a table is missing; open() the store first",
    "42704": _FUNCTIONS_GONE,
    "42883": _FUNCTIONS_GONE,
    "57P01": "it is shutting down; try again",
    "57P02": "it crashed; try again",
    "57P03": "it is starting up or shutting down; try again",
}

# A connection that ends with one of these may have ended before or after a commit took effect.
_LOST_CLASSES = ("08", "57")
_UNDEFINED = "42704"
_PREPARED_WITH_WHAT_IS_GONE = ("cache lookup failed for ", "function in FROM has unsupported return type")
"""Server messages, without their own SQLSTATE, about a prepared statement whose functions or types were dropped."""


def driver() -> ModuleType:
    """asyncpg, or how to install it."""
    try:
        import asyncpg
    except ModuleNotFoundError as error:
        raise MissingExtra("PostgreSQL needs the driver asyncpg: pip install 'betimes[postgres]'") from error
    return asyncpg


@cache
def failures() -> tuple[type[Exception], ...]:
    """Return the errors the driver raises when the server refuses, cannot be reached or goes away."""
    asyncpg = driver()
    return (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)


def refusal_of(error: Exception, server: str, *, committing: bool = False) -> Exception:
    """The contract's word for an error; one that only a mistake in this package can cause stays as it is."""
    if isinstance(error, driver().DataError | ValueError):
        return error
    state = str(getattr(error, "sqlstate", None) or "")
    if kind := _REFUSALS.get(state):
        return kind(str(error))
    if state == _UNDEFINED and "configuration parameter" in str(error):
        parameter = str(error).partition('"')[2].rpartition('"')[0] or "a parameter"
        return Invalid(
            f"{server}: the database URL has the parameter {parameter!r}, which PostgreSQL does not know. "
            "Leave it out; the schema is `betimes` (PostgresStore(…, schema=…) names another)",
            (("db", f"no such parameter: {parameter}"),),
        )
    if committing and not _never_began(error) and (not state or state.startswith(_LOST_CLASSES)):
        return Unknown(f"{server}: the connection was lost during a commit; ask again under the same key ({error})")
    return Unavailable(f"{server}: {_NEXT_STEPS.get(state) or _describe_error(error)}")


def ended_by_server(error: BaseException | None) -> bool:
    """Return whether an error says that its connection is gone; the server may have ended it for standing idle.

    Its last words may have come and its end not yet: then the driver says that it cannot begin another operation.
    """
    state = str(getattr(error, "sqlstate", None) or "")
    lost = isinstance(error, driver().InterfaceError | driver().InternalClientError | ConnectionError)
    return lost or state == "25P03" or state.startswith(("08", "57P"))


def _never_began(error: Exception) -> bool:
    """Return whether the driver refused to send a statement, because the server's last words are still to be read."""
    return isinstance(error, driver().InternalClientError) and str(error).startswith("cannot switch to state")


def _describe_error(error: Exception) -> str:
    if str(error).startswith(_PREPARED_WITH_WHAT_IS_GONE):
        return _FUNCTIONS_GONE
    if isinstance(error, TimeoutError):
        return "no answer in time, or all of the pool's connections are busy; try again"
    return f"{error or type(error).__name__}; check that the server is up and reachable, then try again"


def server_name(dsn: str) -> str:
    """Host and database of a DSN for messages, without the user and the password."""
    parts = urlsplit(dsn)
    query = parse_qs(parts.query)
    hosts = query.get("host") or [parts.netloc.rpartition("@")[2]]
    database = query.get("dbname") or query.get("database") or [parts.path.lstrip("/")]
    return f"PostgreSQL at {unquote(hosts[0]) or 'the default host'}, database {unquote(database[0]) or 'the default'}"
