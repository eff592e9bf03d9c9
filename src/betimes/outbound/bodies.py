"""Bodies of answers from elsewhere, read whole and never past a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp


async def read_body(answer: aiohttp.ClientResponse, bytes_max: int) -> bytes:
    """Return the whole body, or more than so many bytes of it: then there is more than anybody wants to read.

    `answer.content.read(n)` would return what has arrived so far, which of a large body is a part.
    """
    read = bytearray()
    async for chunk in answer.content.iter_any():
        read += chunk
        if len(read) > bytes_max:
            break
    return bytes(read)
