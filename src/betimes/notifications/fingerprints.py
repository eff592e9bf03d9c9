"""Fingerprints of texts: normalised, hashed exactly, and by SimHash for near duplicates.

Two texts that differ only in case, width or white space are the same text. Texts that share almost all of their word
shingles have fingerprints that differ in few of 64 bits; `docs/notifications.md` has what each distance catches.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from functools import lru_cache
from hashlib import blake2b, sha256
from unicodedata import normalize

BITS = 64
EXACT_CHARS = 22
"""Of the SHA-256 in base 64: 132 bits, for at most 500 hashes of one person."""
_LANE_BITS = 16
_TOKENS_MAX = (1 << (_LANE_BITS - 1)) - 1
_WORD = re.compile(r"\w+|#")
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_BIAS = sum(1 << (_LANE_BITS * lane) for lane in range(BITS))
_SPREAD = tuple(
    sum(1 << (_LANE_BITS * place) for place in range(8) if byte >> place & 1).to_bytes(_LANE_BITS)
    for byte in range(256)
)
"""A byte's eight bits, each in a lane of its own."""
_DIGITS = bytes(ord("1") if byte & 0x80 else ord("0") for byte in range(256))


def normalise_text(text: str) -> str:
    """Return the text in Unicode NFKC, casefolded, white space collapsed."""
    return " ".join(normalize("NFKC", text).casefold().split())


def mask_numbers(text: str) -> str:
    """Return the text with every number written as `#`, so that reports with other figures are alike."""
    return _NUMBER.sub("#", text)


def exact_hash(*parts: str) -> str:
    """Return the hash of these parts, each delimited by its length."""
    sized = " ".join((*map(str, map(len, parts)), *parts))
    return urlsafe_b64encode(sha256(sized.encode("utf-8", "surrogatepass")).digest())[:EXACT_CHARS].decode()


def fingerprint(text: str, words_min: int, width: int) -> int | None:
    """Return the SimHash of a normalised text's shingles of `width` words; `None` below `words_min` words."""
    words = _WORD.findall(text)
    if len(words) < max(words_min, width):
        return None
    places = range(min(len(words) - width + 1, _TOKENS_MAX))
    shingles = [" ".join(words[place : place + width]) for place in places]
    total = sum(map(_lanes, shingles))
    # A lane holds how many shingles have its bit; adding the complement of half carries into the lane's top bit.
    votes = total + _BIAS * ((1 << (_LANE_BITS - 1)) - 1 - len(shingles) // 2)
    return int(votes.to_bytes(BITS * _LANE_BITS // 8)[::2].translate(_DIGITS), 2)


def distance(one: int, other: int) -> int:
    """Return in how many bits two fingerprints differ."""
    return (one ^ other).bit_count()


@lru_cache(maxsize=1 << 16)
def _lanes(shingle: str) -> int:
    """Return the shingle's 64 hashed bits, each in a lane of its own, so that lanes can be added all at once."""
    hashed = blake2b(shingle.encode("utf-8", "surrogatepass"), digest_size=BITS // 8).digest()
    return int.from_bytes(b"".join(map(_SPREAD.__getitem__, hashed)))
