"""What holds for every domain's types: they are listed once, and their texts depend on values alone."""

from __future__ import annotations

import pytest

from betimes.catalogue import DECIDERS, DOMAIN_OF, DOMAINS, SECTIONS
from betimes.engine.codecs import spelt_by_identity


@pytest.mark.parametrize("decider", DECIDERS, ids=lambda decider: decider.kind)
def test_a_state_is_spelt_the_same_live_and_replayed(decider: object) -> None:
    assert spelt_by_identity(decider.state) == ()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", SECTIONS)
def test_a_policy_has_the_same_fingerprint_whoever_spelt_it(name: str) -> None:
    assert spelt_by_identity(SECTIONS[name]) == ()


def test_every_kind_is_listed_once_and_those_of_a_domain_have_one() -> None:
    assert len({decider.kind for decider in DECIDERS}) == len(DECIDERS)
    assert len(DOMAIN_OF) == sum(len(domain.deciders) for domain in DOMAINS)
