"""Clients that others generate from the served description work: nothing is left out, and calls are answered."""

from __future__ import annotations

import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from betimes.app.routes import ROUTES
from betimes.http.openapi import operation_id
from tests.cli.running import serving
from tests.http.served import site

LIMIT_S = 300
PACKAGE = "generated_betimes"
CONFIGURATION = f'{{"package_name_override": "{PACKAGE}", "post_hooks": [], "literal_enums": true}}'
TYPESCRIPT = shutil.which("openapi-typescript")


@contextmanager
def generated(description: Path, url: str) -> Iterator[Any]:
    """A client from openapi-python-client, which took every part of the description."""
    folder = description.parent
    (folder / "configuration.json").write_text(CONFIGURATION)
    said = generate(
        sys.executable,
        "-m",
        "openapi_python_client",
        "generate",
        "--path",
        str(description),
        "--meta",
        "none",
        "--output-path",
        str(folder / PACKAGE),
        "--config",
        str(folder / "configuration.json"),
        "--fail-on-warning",
    )
    assert "WARNING" not in said
    sys.path.insert(0, str(folder))
    try:
        with import_module(PACKAGE).Client(base_url=url) as client:
            yield client
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]


def generate(*command: str) -> str:
    """Run a generator to its end and return all it said; it may not fail."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def operation(name: str) -> Any:
    return import_module(f"{PACKAGE}.api.{name}")


def models() -> Any:
    return import_module(f"{PACKAGE}.models")


def test_a_generated_python_client_has_every_route_and_can_call_them(tmp_path: Path) -> None:
    """In one test, since making the client takes seconds."""
    description = tmp_path / "openapi.json"
    with serving("serve", "--dev", "--port", "0", "--db", "memory://", folder=tmp_path) as server:
        description.write_bytes(server.ask("GET", "/openapi.json").body)
        with generated(description, server.url) as client:
            check_every_route_is_there()
            check_a_trigger_is_asked_for_and_found(client)
            check_triggers_go_in_a_batch_too(client)
            check_a_schedule_is_made_changed_and_listed(client)
            check_an_intent_is_made_and_listed(client)
            check_scores_are_numbers(client)
            check_what_is_refused_is_a_problem(client)


def check_every_route_is_there() -> None:
    package = import_module(f"{PACKAGE}.api")
    found = pkgutil.walk_packages(package.__path__, f"{PACKAGE}.api.")
    made = {import_module(module.name).__name__.rpartition(".")[2] for module in found if not module.ispkg}
    assert made == {operation_id(route) for route in ROUTES}


def check_a_trigger_is_asked_for_and_found(client: Any) -> None:
    m = models()
    body = m.TriggerRequest(account_id="acct-7", trigger_type="SIGNAL_ARRIVED", idempotency_key="sig-1")
    verdict = operation("runs.post_v1_triggers").sync(client=client, body=body)
    assert isinstance(verdict, m.TriggerVerdict)
    assert verdict.result == "ALLOW"
    assert verdict.evaluated_at.tzinfo is not None
    [run] = operation("runs.get_v1_runs").sync(client=client, account_id="acct-7").items
    assert (run.run_id, run.status) == (verdict.run_id, "allowed")


def check_triggers_go_in_a_batch_too(client: Any) -> None:
    m = models()
    several = [
        m.TriggerRequest(account_id=f"batch-{n}", trigger_type="SIGNAL_ARRIVED", idempotency_key=f"batch-{n}")
        for n in range(2)
    ]
    answer = operation("runs.post_v1_triggers").sync(client=client, body=m.TriggerRequestItems(items=several))
    assert [(item.status, item.body.result) for item in answer.items] == [(200, "ALLOW"), (200, "ALLOW")]


def check_a_schedule_is_made_changed_and_listed(client: Any) -> None:
    m = models()
    target = m.TriggerTarget(kind="trigger", account_id="acct-8", trigger_type="SIGNAL_ARRIVED")
    body = m.ScheduleRequest(schedule_id="brief", cron="0 7 * * *", timezone="Europe/Berlin", target=target)
    made = operation("automation.post_v1_schedules").sync(client=client, body=body)
    assert isinstance(made, m.ScheduleWritten)
    assert isinstance(made.target, m.TriggerTarget)
    assert made.next_tick_at > datetime(2026, 1, 1, tzinfo=UTC)
    changed = operation("automation.patch_v1_schedules_by_schedule_id").sync(
        "brief", client=client, body=m.SchedulePatch(jitter_seconds=60)
    )
    assert changed.version == 2
    [listed] = operation("automation.get_v1_schedules").sync(client=client, limit=10).items
    assert (listed.schedule_id, listed.jitter_seconds) == ("brief", 60)


def check_an_intent_is_made_and_listed(client: Any) -> None:
    m = models()
    body = m.Draft(
        user_id="u-3",
        trigger_type="once",
        action_type="notify",
        action_context="Call Ana.",
        schedule=m.DraftSchedule(trigger_at=datetime(2100, 1, 1, 9, tzinfo=UTC)),
    )
    made = operation("intents.post_v1_intents").sync(client=client, body=body)
    assert isinstance(made, m.IntentWritten)
    [listed] = operation("intents.get_v1_intents").sync(client=client, user_id="u-3").items
    assert listed.schedule.trigger_at == datetime(2100, 1, 1, 9, tzinfo=UTC)


def check_scores_are_numbers(client: Any) -> None:
    m = models()
    made = operation("scores.post_v1_scores").sync(client=client, body=m.NewScore(user_id="u-3", score=42.5))
    assert isinstance(made, m.WrittenScore)
    assert made.score == 42.5


def check_what_is_refused_is_a_problem(client: Any) -> None:
    problem = operation("runs.get_v1_runs_by_run_id").sync("no-such-run", client=client)
    assert isinstance(problem, models().Problem)
    assert (problem.status, problem.code) == (404, "NOT_FOUND")


@pytest.mark.skipif(
    TYPESCRIPT is None, reason="openapi-typescript is not on the path; npm install -g openapi-typescript"
)
async def test_types_for_typescript_are_generated_from_it(tmp_path: Path) -> None:
    description, made = tmp_path / "openapi.json", tmp_path / "betimes.ts"
    async with site() as s:
        description.write_bytes((await s.client("GET", "/openapi.json")).raw)
    assert TYPESCRIPT is not None
    said = generate(TYPESCRIPT, str(description), "--output", str(made))
    assert "warn" not in said.lower()
    text = made.read_text()
    assert all(f"    {operation_id(route)}: {{" in text for route in ROUTES)
    assert "Record<string, never>[]" not in text
