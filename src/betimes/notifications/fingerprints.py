"""Fingerprints of texts: normalised, hashed exactly, and by SimHash for near duplicates.

Two texts that differ only in case, width or white space are the same text. Texts that share almost all of their word
shingles have fingerprints that differ in few of 64 bits; `docs/notifications.md` has what each distance catches.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from functools import lru_cache
from hashlib import blake2b, sha256
from unicodedata import normalize

BITS = 64
EXACT_CHARS = 22
"""Of the SHA-256 in base 64: 132 bits, for at most 500 hashes of one person."""
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_WORD = re.compile(r"\w+|#")
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_ASCII_WORDS = "".join(char if _WORD.match(char) else " " for char in map(chr, range(128)))
"""ASCII with a space for everything that is not part of a word."""

# A vote counts how many shingles have each of 64 bits: all at once, each bit in a lane of its own of one long number.
# Bit `16 * i + j` of a hash has its lane at bit `80 * j + 16 * i`, which is where copy `j` of the hash has it when the
# copies are 79 apart. Since 2 ** 80 is 2 modulo 2 ** 79 - 1, the remainder by that puts all bits back in their places.
_LANE_BITS = 16
_COPY_BITS = BITS + _LANE_BITS - 1
_COPIES = sum(1 << _COPY_BITS * copy for copy in range(_LANE_BITS))
_LANES = sum(
    1 << (_COPY_BITS + 1) * copy + _LANE_BITS * lane for copy in range(_LANE_BITS) for lane in range(BITS // _LANE_BITS)
)
_PLACES = (1 << _COPY_BITS) - 1
_HALF = 1 << (_LANE_BITS - 1)
_HASH = blake2b(digest_size=BITS // 8)


def normalise_text(text: str) -> str:
    """Return the text in Unicode NFKC, casefolded, white space collapsed."""
    return " ".join(normalize("NFKC", text).casefold().split())


def mask_numbers(text: str) -> str:
    """Return the text with every number written as `#`, so that reports with other figures are alike."""
    return _NUMBER.sub("#", text)


def exact_hash(*parts: str) -> str:
    """Return the hash of these parts, each delimited by its length."""
    sized = " ".join((*map(str, map(len, parts)), *parts))
    hashed = sha256(sized.encode("utf-8", "surrogatepass")).digest()
    return b2a_base64(hashed)[:EXACT_CHARS].translate(_URL_SAFE).decode()


def fingerprint(text: str, words_min: int, width: int) -> int | None:
    """Return the SimHash of a normalised text's shingles of `width` words; `None` below `words_min` words."""
    # Splitting takes a quarter of the time of matching, and most texts are ASCII.
    is_ascii = text.isascii()
    words = text.replace("#", " # ").translate(_ASCII_WORDS).split() if is_ascii else _WORD.findall(text)
    if len(words) < max(words_min, width):
        return None
    count = min(len(words) - width + 1, _HALF - 1)
    votes = sum(map(_lanes, map(" ".join, zip(*(words[place : place + count] for place in range(width)), strict=True))))
    # A lane starts so far below half its range that a majority, and nothing less, carries into its top bit.
    return (votes + _LANES * (_HALF - 1 - count // 2) >> _LANE_BITS - 1 & _LANES) % _PLACES


def distance(one: int, other: int) -> int:
    """Return in how many bits two fingerprints differ."""
    return (one ^ other).bit_count()


@lru_cache(maxsize=1 << 14)
def _lanes(shingle: str) -> int:
    """Return the shingle's 64 hashed bits, each in a lane of its own."""
    hashing = _HASH.copy()
    hashing.update(shingle.encode("utf-8", "surrogatepass"))
    return int.from_bytes(hashing.digest()) * _COPIES & _LANES
