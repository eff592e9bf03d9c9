"""Routes of sessions: how a person in a browser signs in, gets to act for a while, and signs out."""

from __future__ import annotations

from functools import partial

from betimes.admin.sessions import SESSION_S_MAX, Elevation, NewSession, Sessions, SessionView
from betimes.core.errors import Refused
from betimes.engine.tenants.identities import Identities, Identity
from betimes.http.problems import CHALLENGE, HttpProblem
from betimes.http.routes import ANY_KEY, Answer, RequestContext
from betimes.http.service_calls import route
from betimes.http.sessions import COOKIE, session_cookie

TAG = "Administration"
_NO_STORE = {"Cache-Control": "no-store"}


def _sessions(request: RequestContext) -> Sessions:
    if not request.key_id:
        raise Refused("NO_KEYS", "no key is needed here, and no session")
    return Sessions(request.engine, request.caller)


async def open_session(request: RequestContext[NewSession]) -> Answer[SessionView]:
    sessions = _sessions(request)
    view, token = await sessions.open(request.key_id, request.body, key=request.idempotency_key)
    cookie = session_cookie(token or "", request.body.expires_in_s)
    return Answer(view, 201, {**_NO_STORE, "Set-Cookie": cookie, "Location": "/v1/sessions/current"})


async def session(request: RequestContext) -> SessionView:
    return await _sessions(request).view(request.key_id)


async def operate(request: RequestContext[Elevation]) -> Answer[SessionView]:
    """Elevate the session; the key must be alive and the one that the session was opened with."""
    sessions = _sessions(request)
    if not request.process.sessions_act:
        raise HttpProblem(403, "ACTIONS_OFF", "Sessions only read on this server: [console] actions is false.")
    # A look of its own: others must not go by the time of a dry run.
    looks = Identities()
    shown: Identity | None = None
    if request.body.key is not None:
        shown = await looks.of(request.engine, request.body.key)
    elif request.proxy_key_id:
        shown = await looks.under(request.engine, request.proxy_key_id)
    # One answer for all of it: nobody learns which keys there are.
    if shown is None or shown.is_session or shown.tenant != request.caller.tenant:
        raise HttpProblem(401, "UNAUTHENTICATED", "The key is unknown, expired or revoked.", headers=CHALLENGE)
    return Answer(await sessions.elevate(request.key_id, shown.key_id), headers=_NO_STORE)


async def close_session(request: RequestContext) -> Answer:
    await _sessions(request).close(request.key_id)
    return Answer(None, 204, {**_NO_STORE, "Set-Cookie": session_cookie("", 0)})


_route = partial(route, scope=ANY_KEY, tag=TAG)
_post = partial(_route, method="POST", signs_in=True)

ROUTES = (
    _post(
        "/v1/sessions",
        open_session,
        "Open a session for a browser",
        description=f"With read scopes only, for at most {SESSION_S_MAX // 3600} h; it ends after an hour without a "
        f"request, and with its key. The answer sets the cookie `{COOKIE}` and shows no secret. With it, requests that "
        "change something need `Sec-Fetch-Site: same-origin` and `X-Betimes-Console: 1`.",
        body_optional=True,
        status=201,
        codes=(
            (403, "MISSING_SCOPE"),
            (409, "TOO_MANY_SESSIONS"),
            (409, "SESSION_OPENED"),
            (409, "ALREADY_A_SESSION"),
            (409, "NO_KEYS"),
        ),
    ),
    _route(
        "/v1/sessions/current",
        session,
        "The session of this cookie",
        method="GET",
        codes=((404, "NOT_FOUND"), (409, "NO_KEYS")),
    ),
    _post(
        "/v1/sessions/current/operate",
        operate,
        "Elevate the session for 15 minutes",
        description="It has all scopes of its key until then; the key must be sent again.",
        codes=((404, "NOT_FOUND"), (409, "ANOTHER_KEY"), (409, "NO_KEYS"), (403, "CROSS_SITE"), (403, "ACTIONS_OFF")),
    ),
    _route(
        "/v1/sessions/current",
        close_session,
        "Close the session of this cookie",
        method="DELETE",
        codes=((404, "NOT_FOUND"), (409, "NO_KEYS"), (403, "CROSS_SITE")),
    ),
)
