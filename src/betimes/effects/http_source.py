"""Sources of conditions over HTTP: one GET, one JSON answer, one value in it.

    HttpSource("https://quotes.example/v1/{subject}", field="data.last")

The address is configured by whoever runs the worker; the ticker or user id is put into it escaped, so it stays one part
of the path or query. Redirects are not followed, and time and size are bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import msgspec

from betimes.core.errors import Invalid, MissingExtra

if TYPE_CHECKING:
    import aiohttp

ANSWER_BYTES_MAX = 256 * 1024


class SourceAnswer(Exception):
    """The receiver answered something that is of no use."""


class HttpSource:
    """A source for an intent worker. Close it, or use it as a context, to let its connections go."""

    def __init__(
        self, url: str, *, field: str = "", headers: Mapping[str, str] | None = None, timeout_s: float = 5.0
    ) -> None:
        if "{subject}" not in url or not url.startswith(("http://", "https://")):
            raise Invalid(f"{url!r} must be an http or https address with {{subject}} where the ticker or user goes")
        self._url = url
        self._path = field.split(".") if field else []
        self._headers = dict(headers or {})
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, subject: str) -> Any:
        answer = await self._get(self._url.replace("{subject}", quote(subject, safe="")))
        for name in self._path:
            if not isinstance(answer, Mapping) or name not in answer:
                raise SourceAnswer(f"the answer has no field {'.'.join(self._path)}")
            answer = answer[name]
        return answer

    async def _get(self, url: str) -> Any:
        from yarl import URL

        async with self._opened().get(URL(url, encoded=True), allow_redirects=False) as answer:
            if answer.status != 200:
                raise SourceAnswer(f"answered {answer.status}")
            body = await answer.content.read(ANSWER_BYTES_MAX + 1)
            while len(body) <= ANSWER_BYTES_MAX and (more := await answer.content.read(ANSWER_BYTES_MAX)):
                body += more
        if len(body) > ANSWER_BYTES_MAX:
            raise SourceAnswer(f"the answer has more than {ANSWER_BYTES_MAX:,} bytes")
        try:
            return msgspec.json.decode(body)
        except msgspec.MsgspecError as error:
            raise SourceAnswer("the answer is no JSON") from error

    def _opened(self) -> aiohttp.ClientSession:
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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
