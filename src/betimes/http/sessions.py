"""Sessions over HTTP: a cookie instead of a key, and the protection against requests from other sites.

The cookie is `__Host-betimes`: Secure, HttpOnly, SameSite=Strict, for this host alone. Browsers take it over TLS, and
Chromium and Firefox also from `http://localhost` and `http://127.0.0.1`, which they count as safe. A request that
changes something must also say that this very page sent it (`Sec-Fetch-Site: same-origin`, which no page can forge) and
that it meant to (`X-Betimes-Console: 1`, which no form can send). A cookie together with an `Authorization` header is
refused: nobody may wonder which of the two counted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from starlette.requests import Request, cookie_parser

from betimes.core.errors import BetimesError
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.tenants.identities import Identity
from betimes.engine.tenants.model import KeepSession, tenant_stream
from betimes.http.problems import CHALLENGE, HttpProblem

COOKIE = "__Host-betimes"
INTENT_HEADER = "x-betimes-console"
NO_SESSION = "The session has ended; sign in again."
CROSS_SITE = "A session changes things only with Sec-Fetch-Site: same-origin and X-Betimes-Console: 1."
SAFE = ("GET", "HEAD")
_log = logging.getLogger("betimes.api")


def session_cookie(token: str, max_age_s: int) -> str:
    """Return the header that sets the cookie; with an age of 0, that removes it."""
    return f"{COOKIE}={token}; Path=/; Max-Age={max_age_s}; Secure; HttpOnly; SameSite=Strict"


def session_token(request: Request) -> str | None:
    """Return the token in the cookie, if the request carries one; raise 401 or 403 if it may not be used for this."""
    token = request.cookies.get(COOKIE)
    if not token:
        return None
    if "authorization" in request.headers:
        raise HttpProblem(401, "UNAUTHENTICATED", "Send a key or a session's cookie, not both.", headers=CHALLENGE)
    site = request.headers.get("sec-fetch-site")
    if site in ("cross-site", "same-site"):
        raise HttpProblem(403, "CROSS_SITE", "Requests from another site may not use this session.")
    if request.method not in SAFE and not is_meant(request):
        raise HttpProblem(403, "CROSS_SITE", CROSS_SITE)
    return token


def is_meant(request: Request) -> bool:
    """Return whether a page of this very server sent the request, and meant to."""
    return request.headers.get("sec-fetch-site") == "same-origin" and request.headers.get(INTENT_HEADER) == "1"


def token_in(headers: Mapping[str, str]) -> str:
    """Return the token of a request that was let in: its session's, or its key."""
    cookies = cookie_parser(headers.get("cookie", ""))
    return cookies.get(COOKIE) or headers.get("authorization", "").partition(" ")[2].strip()


async def keep_session(engine: Engine, known: Identity) -> None:
    """Note that a session is in use. If that cannot be noted now, the next request does."""
    command = KeepSession(known.key_id)
    try:
        await engine.submit(Submission(stream=tenant_stream(known.tenant), command=command, actor=known.name))
    except BetimesError as error:
        _log.warning("the session %s could not be extended: %s", known.key_id, error)
