"""Exact hashes, fingerprints, and the lanes they are computed in."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from hashlib import blake2b, sha256

from hypothesis import given, settings
from hypothesis import strategies as st

from betimes.notifications.fingerprints import distance, exact_hash, fingerprint, mask_numbers, normalise_text

TEXTS = st.text(st.characters(max_codepoint=127)) | st.text(st.sampled_from("aé#_1 ,-\n\x1f中ß\u0301"))
WORDS = st.lists(st.text("abcdefgh", min_size=1, max_size=4), min_size=4, max_size=300)


def bit_by_bit(words: list[str], width: int) -> int:
    shingles = [" ".join(words[place : place + width]) for place in range(len(words) - width + 1)]
    hashes = [int.from_bytes(blake2b(one.encode(), digest_size=8).digest()) for one in shingles]
    votes = (sum(one >> place & 1 for one in hashes) for place in range(64))
    return sum(1 << place for place, count in enumerate(votes) if 2 * count > len(hashes))


@settings(max_examples=100, deadline=None)
@given(WORDS, st.integers(1, 4))
def test_lanes_count_as_bits_would(words: list[str], width: int) -> None:
    assert fingerprint(" ".join(words), 2, width) == bit_by_bit(words, width)


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.integers(1, 4))
def test_words_are_runs_of_word_characters_and_every_mask(text: str, width: int) -> None:
    words = re.findall(r"\w+|#", text)
    expected = bit_by_bit(words, width) if len(words) >= max(2, width) else None
    assert fingerprint(text, 2, width) == expected


@given(TEXTS)
def test_an_exact_hash_is_the_beginning_of_a_sha_256(text: str) -> None:
    whole = urlsafe_b64encode(sha256(f"{len(text)} 1 {text} é".encode()).digest()).decode()
    assert exact_hash(text, "é") == whole[:22]


def test_fewer_words_than_asked_for_have_no_fingerprint() -> None:
    assert fingerprint("one two three", 4, 3) is None
    assert fingerprint("one two three four", 4, 3) is not None


def test_the_empty_text_has_none() -> None:
    assert fingerprint("", 2, 1) is None


def test_texts_are_compared_without_case_width_and_white_space() -> None:
    assert normalise_text(" Straße\u00a0\n ﬁne  ＡＢＣ ") == "strasse fine abc"


def test_parts_cannot_be_shifted_into_one_another() -> None:
    assert exact_hash("ab", "c") != exact_hash("a", "bc")
    assert len(exact_hash("")) == 22


def test_numbers_are_masked_whole() -> None:
    assert mask_numbers("cpu at 4.2 % since 09:15, 3 of 12 hosts") == "cpu at # % since #, # of # hosts"


def test_masked_texts_that_differ_in_figures_have_one_fingerprint() -> None:
    texts = [normalise_text(f"Disk of host {n} is {n * 3}.{n} % full since 09:1{n}") for n in (1, 2)]
    plain = [fingerprint(text, 4, 3) for text in texts]
    hidden = [fingerprint(mask_numbers(text), 4, 3) for text in texts]
    assert hidden[0] == hidden[1] is not None
    assert plain[0] is not None
    assert plain[1] is not None
    assert distance(plain[0], plain[1]) > 3


def test_surrogates_are_no_trouble() -> None:
    assert fingerprint(normalise_text("\ud800 a b c d"), 4, 3) is not None
    assert exact_hash("\ud800")
