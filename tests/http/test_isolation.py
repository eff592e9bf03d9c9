"""A tenant cannot tell whether there are others; `make soak ARGS=isolation` asks for longer, on every store."""

from __future__ import annotations

import pytest

from tests.http.isolation import compare_sites


@pytest.mark.parametrize("seed", range(2))
async def test_whatever_others_do_a_tenants_answers_are_the_same(seed: int) -> None:
    compared = await compare_sites(seed, 150)
    assert compared.differences == []
    assert compared.answered > 75
