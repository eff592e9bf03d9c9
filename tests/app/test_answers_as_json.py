"""Whatever a service answers with can be given on by a web framework: `to_dict()` is what the HTTP API sends."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from betimes import Betimes, VirtualClock
from betimes.domain.json_view import JsonView
from tests.app.test_mappings import SERVICES
from tests.http.served import site

NOTE = {
    "event_id": "e",
    "user_id": "ann",
    "event_type": "MESSAGE",
    "title": "Tom replied",
    "message": "See you at nine?",
    "source": "chat",
    "channels": ["push"],
}
TRIGGER = {"account_id": "a", "trigger_type": "SIGNAL_ARRIVED", "idempotency_key": "k"}
INTERNAL = {
    "submit",
    "find_recorded",
    "segment",
    "rows_back",
    "change",
    "require_state",
    "state",
    "state_after",
    "runs_of",
}
"""Methods services share among themselves."""


def answers() -> Iterator[tuple[str, type[Any]]]:
    """Every struct that a public method of a service returns, alone or in a list."""
    for service in SERVICES:
        for name, method in inspect.getmembers(service, inspect.iscoroutinefunction):
            if not name.startswith("_") and name not in INTERNAL:
                for kind in structs_in(get_type_hints(method)["return"]):
                    yield f"{service.__name__}.{name}", kind


def structs_in(hint: Any) -> Iterator[type[Any]]:
    for part in (get_origin(hint), *get_args(hint)):
        yield from structs_in(part) if part is not None else ()
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint


def test_every_answer_of_a_service_can_be_given_on() -> None:
    found = list(answers())
    assert len({kind for _, kind in found}) > 40
    assert [(name, kind.__name__) for name, kind in found if not issubclass(kind, JsonView)] == []


async def test_answers_are_plain_json() -> None:
    async with Betimes("memory://", clock=VirtualClock("2026-01-05T09:00:00Z")) as bt:
        verdict = (await bt.runs.trigger(TRIGGER)).to_dict()
        assert (verdict["result"], verdict["evaluated_at"]) == ("ALLOW", "2026-01-05T09:00:00Z")
        score = (await bt.scores.create({"user_id": "ann", "score": 48.4})).to_dict()
        assert score["score"] == 48.4
        page = (await bt.scores.list()).to_dict()
        for told in (verdict, score, page, (await bt.notifications.send(NOTE)).to_dict()):
            assert json.loads(json.dumps(told)) == told
        assert page["items"][0]["score"] == 48.4


async def test_a_pass_can_be_given_on() -> None:
    clock = VirtualClock("2026-01-05T09:00:00Z")
    async with site() as s, Betimes("memory://", clock=clock) as bt:
        over_http = (await s.client("POST", "/v1/clock", {"advance_s": 3_600})).json
        for told in ((await bt.advance(by_s=3_600)).to_dict(), (await bt.tick()).to_dict()):
            assert json.loads(json.dumps(told)) == over_http | {"fired": told["fired"]}


async def test_it_is_what_goes_over_http() -> None:
    async with site() as s, Betimes("memory://", clock=VirtualClock("2026-01-05T09:00:00Z")) as bt:
        over_http = (await s.client("POST", "/v1/triggers", TRIGGER)).json
        here = (await bt.runs.trigger(TRIGGER)).to_dict()
        assert over_http == here
