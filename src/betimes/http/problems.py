"""Problems: every status of 400 or more has one body, by RFC 9457, and says as much as the caller can act upon."""

from __future__ import annotations

import logging
from uuid import uuid4

import msgspec

from betimes.core.errors import BetimesError, DamagedStore, Invalid, MalformedRow, NewerVersion, Refused, StoreError

_log = logging.getLogger("betimes.api")

TITLES = {
    400: "The request cannot be read",
    401: "A valid key is needed",
    403: "The key lacks a permission",
    404: "Not found",
    405: "Method not allowed",
    408: "The request took too long to arrive",
    409: "Conflict with the current state",
    412: "The version has changed",
    413: "The request is too large",
    414: "The URL is too long",
    415: "The content type is not supported",
    422: "The request is not valid",
    429: "Too many requests",
    431: "The headers are too large",
    500: "Internal error",
    501: "A package is not installed",
    503: "Try again later",
    504: "The request took too long",
}
REFUSALS = {
    # reasons of deciders that are not 409, with the code they are told as
    "UNKNOWN_TRIGGER_TYPE": (422, "UNKNOWN_TRIGGER_TYPE"),
    "NOT_FOUND": (404, "NOT_FOUND"),
    "VERSION_MISMATCH": (412, "VERSION_MISMATCH"),
    "UNAUTHENTICATED": (401, "UNAUTHENTICATED"),
    "INVALID": (422, "INVALID"),
    "UNKNOWN_INTERACTION": (422, "INVALID"),
    "UNKNOWN_STATUS": (422, "INVALID"),
    "UNKNOWN_STAGE": (422, "INVALID"),
    "NOT_A_PAUSE": (422, "INVALID"),
    "NOT_ONE_AMOUNT": (422, "INVALID"),
    "IN_THE_FUTURE": (422, "INVALID"),
}
REFUSED_FIELDS = {"UNKNOWN_TRIGGER_TYPE": "trigger_type"}
"""Fields that are all there is to blame for a refusal."""
CHALLENGE = {"WWW-Authenticate": "Bearer"}
CODES = {"TOO_LARGE": "BODY_TOO_LARGE", "VERSION_CONFLICT": "STORE_UNAVAILABLE", "DUPLICATE_KEY": "STORE_UNAVAILABLE"}
RETRY_AFTER_S = 1
STORE_DETAILS = {
    "STORE_UNAVAILABLE": "The store cannot be reached; nothing was written. Try again.",
    "OUTCOME_UNKNOWN": "It is not known whether this was written; ask again under the same key.",
}
DAMAGED = "The stored data is damaged; whoever runs the server can find where with `betimes verify`."


class FieldProblem(msgspec.Struct, frozen=True):
    path: str
    message: str


class Problem(msgspec.Struct, frozen=True):
    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldProblem]
    """The first 20 bad fields."""
    errors_total: int
    """Number found."""
    error_id: str | None


class HttpProblem(Exception):
    """A problem that is the protocol's own: no key, no such route, a body that cannot be read."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: tuple[tuple[str, str], ...] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.errors = errors
        self.headers = headers or {}


def problem_of(error: BaseException) -> tuple[Problem, dict[str, str]]:
    """Return the problem that an error is answered with, and its headers; of a bug it shows an id and no more."""
    if isinstance(error, HttpProblem):
        return _problem(error.status, error.code, str(error), error.errors), error.headers
    if isinstance(error, Refused):
        status, code = REFUSALS.get(error.reason, (409, error.reason))
        field = REFUSED_FIELDS.get(error.reason)
        errors = ((field, str(error)),) if field else ()
        return _problem(status, code, str(error), errors), _refusal_headers(status, error)
    if isinstance(error, Invalid):
        return _problem(422, "INVALID", str(error), error.problems, total=error.total), {}
    # The order matters: refusals and invalid requests are errors of betimes too, and say more.
    if isinstance(error, BetimesError) and error.http_status != 500:
        status = 503 if error.code in ("VERSION_CONFLICT", "DUPLICATE_KEY") else error.http_status
        headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else {}
        code = CODES.get(error.code, error.code)
        if isinstance(error, StoreError) and status == 503:
            return _store_problem(status, code, error), headers
        return _problem(status, code, str(error)), headers
    if isinstance(error, MalformedRow | NewerVersion):
        return _row_problem(error), {}
    error_id = uuid4().hex
    _log.error("%s: an unexpected error", error_id, exc_info=error)
    return _problem(500, "INTERNAL", "An unexpected error; its id is in the log.", (), error_id), {}


def _store_problem(status: int, code: str, error: StoreError) -> Problem:
    """Say what to do and leave the rest to the log: a store's own message names where the database is."""
    detail = STORE_DETAILS.get(code, "The store could not write this; try again.")
    told = _problem(status, code, detail)
    _log.warning("%s: %s", told.error_id, error)
    return told


def _row_problem(error: MalformedRow | NewerVersion) -> Problem:
    """Name the row; of a damaged database only that it is, because its message names where it lies."""
    told = _problem(500, error.code, DAMAGED if isinstance(error, DamagedStore) else str(error))
    _log.error("%s: %s", told.error_id, error)
    return told


def _refusal_headers(status: int, error: Refused) -> dict[str, str]:
    if status == 401:
        return CHALLENGE
    return {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}


def _problem(
    status: int,
    code: str,
    detail: str,
    errors: tuple[tuple[str, str], ...] = (),
    error_id: str | None = None,
    total: int = 0,
) -> Problem:
    if status >= 500 and error_id is None:
        error_id = uuid4().hex
    fields = [FieldProblem(path, message) for path, message in errors]
    title, total = TITLES.get(status, "Problem"), max(total, len(fields))
    return Problem(f"urn:betimes:problem:{code}", title, status, detail, code, fields, total, error_id)
