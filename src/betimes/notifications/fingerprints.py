"""Fingerprints of texts: normalised, hashed exactly, and by SimHash for near duplicates.

Two texts that differ only in case, width or white space are the same text. Texts that share almost all of their word
shingles have fingerprints that differ in few of 64 bits; `docs/notifications.md` has what each distance catches.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from hashlib import blake2b, sha256
from struct import Struct
from unicodedata import normalize

BITS = 64
EXACT_CHARS = 22
"""Of the SHA-256 in base 64: 132 bits, for at most 500 hashes of one person."""
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_WORD = re.compile(r"\w+|#")
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_ASCII_WORDS = "".join(char if _WORD.match(char) else " " for char in map(chr, range(128)))
"""ASCII with a space for everything that is not part of a word."""

_HASH = blake2b(digest_size=BITS // 8)
_number_of = Struct(">Q").unpack
SHINGLES_KEPT = 1 << 14
"""Shingles whose hashes are remembered; past it all are forgotten."""


class _ShingleVotes(dict[str, int]):
    """The bits of hashed shingles, each in a lane of its own of one long number, so that a sum counts all of them.

    Bit `w * i + j` of a hash, with lanes of `w` bits, has its lane at bit `(64 + w) * j + w * i`, which is where copy
    `j` of the hash has it when the copies are `64 + w - 1` apart. Since `2 ** (64 + w)` is 2 modulo
    `2 ** (64 + w - 1) - 1`, the remainder by that puts all bits back in their places.
    """

    def __init__(self, lane_bits: int) -> None:
        apart, copies = BITS + lane_bits - 1, range(lane_bits)
        self.top_bit = lane_bits - 1
        self.count_max = (1 << self.top_bit) - 1
        """How many shingles may vote."""
        self._copies = sum(1 << apart * copy for copy in copies)
        self.lanes = sum(1 << (apart + 1) * copy + bit for copy in copies for bit in range(0, BITS, lane_bits))
        self.places = (1 << apart) - 1

    def __missing__(self, shingle: str) -> int:
        if len(self) >= SHINGLES_KEPT:
            self.clear()
        hashing = _HASH.copy()
        hashing.update(shingle.encode("utf-8", "surrogatepass"))
        number: int = _number_of(hashing.digest())[0]
        lanes = self[shingle] = number * self._copies & self.lanes
        return lanes


_SHORT, _LONG = _ShingleVotes(8), _ShingleVotes(16)
"""Narrow lanes serve most texts, and take half the time."""


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
    count = min(len(words) - width + 1, _LONG.count_max)
    shingles = map(" ".join, zip(*[words[place : place + count] for place in range(width)], strict=True))
    votes = _SHORT if count <= _SHORT.count_max else _LONG
    # A lane starts so far below half its range that a majority, and nothing less, carries into its top bit.
    total = sum(map(votes.__getitem__, shingles)) + votes.lanes * (votes.count_max - count // 2)
    return (total >> votes.top_bit & votes.lanes) % votes.places


def distance(one: int, other: int) -> int:
    """Return in how many bits two fingerprints differ."""
    return (one ^ other).bit_count()
