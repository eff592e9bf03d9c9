"""Sources of conditions over HTTP: one GET, one JSON answer, one value in it.

    HttpSource("https://quotes.example/v1/{subject}", field="data.last")
    HttpSource("https://books.example/{tenant}/portfolio/{user}")

The address is configured by whoever runs the worker. `{subject}` is what is asked for, the ticker or the user id;
`{tenant}`, `{user}` and `{intent}` say for whom. Each is put in escaped, so it stays one part of the path or query.
Redirects are not followed, and time and size are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self
from urllib.parse import quote

import msgspec

from betimes.core.bounds import read_json
from betimes.core.errors import Invalid, MissingExtra
from betimes.intents.sources import SourceContext
from betimes.outbound.bodies import read_body

if TYPE_CHECKING:
    import aiohttp

ANSWER_BYTES_MAX = 256 * 1024
_PLACE = re.compile(r"\{(subject|tenant|user|intent)\}")


class SourceAnswer(Exception):
    """The receiver answered something that is of no use."""


class SourceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source in the configuration."""

    url: Annotated[
        str,
        msgspec.Meta(
            min_length=8,
            max_length=2_000,
            pattern=r"^https?://.*\{(subject|user)\}",
            description="an http:// or https:// address with {subject} or {user} in it",
        ),
    ]
    """With `{subject}` where the ticker or user goes; `{tenant}`, `{user}` and `{intent}` may be in it too."""
    field: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """Where in the JSON answer the value is, such as `data.last`; left out: the answer itself."""
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=300)] = 5.0
    headers: Mapping[str, str] = {}
    """Headers to send; in the configuration each names the secret whose value it has."""

    def source(self) -> HttpSource:
        return HttpSource(self.url, field=self.field, headers=self.headers, timeout_s=self.timeout_s)

    def __repr__(self) -> str:
        return "SourceSettings(…)"

    def __rich_repr__(self) -> Any:
        yield "…"


class HttpSource:
    """A source for an intent worker. Close it, or use it as a context, to let its connections go."""

    def __init__(
        self, url: str, *, field: str = "", headers: Mapping[str, str] | None = None, timeout_s: float = 5.0
    ) -> None:
        if not ("{subject}" in url or "{user}" in url) or not url.startswith(("http://", "https://")):
            raise Invalid(f"{url!r} must be an http or https address with {{subject}} where the ticker or user goes")
        self._url = url
        self._path = field.split(".") if field else []
        self._headers = dict(headers or {})
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, subject: str, context: SourceContext | None = None) -> Any:
        answer = await self._get(self._address(subject, context))
        for name in self._path:
            if not isinstance(answer, Mapping) or name not in answer:
                raise SourceAnswer(f"the answer has no field {'.'.join(self._path)}")
            answer = answer[name]
        return answer

    def _address(self, subject: str, context: SourceContext | None) -> str:
        names = {"subject": subject}
        if context is not None:
            names |= {"tenant": context.tenant, "user": context.user_id, "intent": context.intent_id}
        return _PLACE.sub(lambda found: quote(names.get(found[1], ""), safe=""), self._url)

    async def _get(self, url: str) -> Any:
        from yarl import URL

        # What was put in is escaped already, and must not be escaped twice.
        async with self._open_session().get(URL(url, encoded=True), allow_redirects=False) as answer:
            if answer.status != 200:
                raise SourceAnswer(f"answered {answer.status}")
            body = await read_body(answer, ANSWER_BYTES_MAX)
        if len(body) > ANSWER_BYTES_MAX:
            raise SourceAnswer(f"the answer has more than {ANSWER_BYTES_MAX:,} bytes")
        try:
            return read_json(body)
        except Invalid as error:
            raise SourceAnswer(f"the answer cannot be used: {error}") from error

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            try:
                import aiohttp
            except ImportError as error:
                raise MissingExtra(
                    "sources over HTTP need the extra `server`: pip install 'betimes[server]'"
                ) from error
            timeout = aiohttp.ClientTimeout(total=self._timeout_s)
            self._session = aiohttp.ClientSession(
                timeout=timeout, headers=self._headers, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
