"""The installed package says which version it is."""

import re

import betimes


def test_the_version_is_known() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", betimes.__version__)
