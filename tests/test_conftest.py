"""Async tests really run: in a loop, with their fixtures, and once for each generated example."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest_plugins = ["pytester"]


async def test_an_async_test_runs_in_a_loop_with_its_fixtures(tmp_path: object) -> None:
    assert asyncio.get_running_loop().is_running()
    assert tmp_path


@given(st.integers())
async def test_an_async_property_runs_in_a_loop(number: int) -> None:
    await asyncio.sleep(0)
    assert number == int(str(number))


def test_a_failing_async_test_fails(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from tests.conftest import pytest_pyfunc_call")
    pytester.makepyfile("async def test_sample():\n    assert False")
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert False*"])
