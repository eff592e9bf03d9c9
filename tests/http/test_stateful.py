"""Requests that build on each other, made from the description against a real server: no failure, nothing undocumented.

What one answer names (an intent, a schedule, a run …) later requests ask for, change and delete, as the links between
operations tell.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from betimes.app.routes import ROUTES
from betimes.http.openapi import openapi
from tests.cli.running import serving
from tests.patience import HANGS_S

API: Any = msgspec.json.decode(msgspec.json.encode(openapi(ROUTES, "1")))
STREAMING = "/v1/verdicts/stream"
WALKS, STEPS = 6, 15
ELSEWHERE = {"404", "405"}

pytestmark = [pytest.mark.crash, pytest.mark.long, pytest.mark.filterwarnings("ignore")]


def test_requests_that_build_on_each_other_never_make_a_server_fail(tmp_path: Path) -> None:
    """Each walk has its own seed: what a real server answers depends on the walks before, so none can be replayed."""
    with serving("serve", "--dev", "--port", "0", "--db", "sqlite:///fuzz.db", folder=tmp_path) as server:
        schema = schemathesis.openapi.from_dict(_without_streams())
        schema.config.update(base_url=server.url, request_timeout=HANGS_S)
        seen: list[int] = []
        wrong: list[Any] = []

        class Workflow(schema.as_state_machine()):  # type: ignore[misc]
            def validate_response(self, response: Any, case: Any, **_: Any) -> None:
                seen.append(response.status_code)
                if _is_starved(response):
                    return
                described = API["paths"][case.operation.path][case.method.lower()]["responses"]
                if str(response.status_code) not in (described.keys() | ELSEWHERE) or response.status_code >= 500:
                    told = (case.method, case.formatted_path, response.status_code, response.content[:1_000])
                    wrong.append(told)

        for number in range(WALKS):
            with suppress(Flaky):
                run_state_machine_as_test(
                    seed(number)(Workflow),
                    settings=settings(
                        max_examples=2,
                        stateful_step_count=STEPS,
                        database=None,
                        deadline=None,
                        phases=[Phase.generate],
                        suppress_health_check=list(HealthCheck),
                    ),
                )
        assert server.ask("GET", "/readyz").status == 200
    assert wrong == []
    assert len(seen) > WALKS * STEPS // 4
    assert any(status < 300 for status in seen)
    assert seen.count(503) <= len(seen) // 20, "a busy machine explains a few, not many"


def _is_starved(response: Any) -> bool:
    """Say whether the store did not come to it in time, as on a machine that is busy with something else."""
    return bool(response.status_code == 503 and response.json()["code"] == "STORE_UNAVAILABLE")


def _without_streams() -> Any:
    """A stream of verdicts does not end by itself."""
    return {**API, "paths": {path: item for path, item in API["paths"].items() if path != STREAMING}}
