"""One answer names every problem: of the path, the headers, the body's shape and its rules, each of them once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.extremes import NOTE, WHOLE
from tests.http.served import Reply, site

BAD_KEY = "no key with spaces"
BAD_ID = "-x"
SCHEDULE = {**WHOLE["/v1/schedules"], "cron": "61 * * * *"}
INTENT = {**WHOLE["/v1/intents"], "schedule": {"interval_minutes": 60, "cron": "61 * * * *"}}


def paths(reply: Reply) -> list[str]:
    assert (reply.status, reply.json["errors_total"]) == (422, len(reply.json["errors"])), reply.raw
    return sorted(error["path"] for error in reply.json["errors"])


@pytest.mark.parametrize(
    ("method", "path", "body", "key", "expected"),
    [
        (
            "PUT",
            f"/v1/users/{BAD_ID}/preferences",
            {"timezone": "Mars/Base", "digest_channel": 7},
            None,
            ["digest_channel", "path.user_id", "timezone"],
        ),
        ("PUT", f"/v1/schedules/{BAD_ID}", SCHEDULE, None, ["cron", "path.schedule_id"]),
        (
            "POST",
            "/v1/schedules",
            {**SCHEDULE, "jitter_s": "x"},
            BAD_KEY,
            ["cron", "header.idempotency-key", "jitter_s"],
        ),
        ("POST", "/v1/schedules", SCHEDULE, BAD_KEY, ["cron", "header.idempotency-key"]),
        ("POST", "/v1/notifications", NOTE, BAD_KEY, ["header.idempotency-key"]),
        (
            "POST",
            "/v1/notifications",
            {**NOTE, "channels": ["push", "push"], "event_type": "NO_SUCH"},
            BAD_KEY,
            ["channels", "event_type", "header.idempotency-key"],
        ),
        (
            "POST",
            "/v1/triggers",
            {"account_id": "a", "trigger_type": "NO_SUCH"},
            BAD_KEY,
            ["header.idempotency-key", "trigger_type"],
        ),
        (
            "POST",
            "/v1/schedules",
            {**WHOLE["/v1/schedules"], "idempotency_key": BAD_KEY},
            BAD_KEY,
            ["header.idempotency-key"],
        ),
        ("POST", "/v1/schedules", {**WHOLE["/v1/schedules"], "idempotency_key": BAD_KEY}, None, ["idempotency_key"]),
        (
            "POST",
            "/v1/backtests",
            {"policies": {"calmer": {"runs": {"nobody": 1}}, "odd": 7}, "samples": 1_000},
            None,
            ["policies.calmer.runs.nobody", "policies.odd", "samples"],
        ),
        (
            "POST",
            "/v1/backtests",
            {"policy": {"nobody": {}}, "domain": "nowhere"},
            BAD_KEY,
            ["domain", "header.idempotency-key", "policy.nobody"],
        ),
    ],
)
async def test_all_of_it_is_named_once(
    method: str, path: str, body: dict[str, Any], key: str | None, expected: list[str]
) -> None:
    async with site() as s:
        headers = {} if key is None else {"idempotency_key": key}
        assert paths(await s.client(method, path, body, **headers)) == expected


async def test_a_bad_key_does_not_hide_what_an_intent_would_be_told() -> None:
    async with site() as s:
        told = (await s.client("POST", "/v1/intents/check", INTENT)).json["errors"]
        assert told
        reply = await s.client("POST", "/v1/intents", INTENT, idempotency_key=BAD_KEY)
        assert paths(reply) == sorted(["header.idempotency-key", *(remark["path"] for remark in told)])


async def test_nothing_is_made_of_a_request_with_a_bad_key() -> None:
    async with site() as s:
        for path in ("/v1/schedules", "/v1/intents", "/v1/notifications"):
            assert (await s.client("POST", path, WHOLE[path], idempotency_key=BAD_KEY)).status == 422
        assert (await s.client("GET", "/v1/ledger?kind=schedule")).json["items"] == []
        assert (await s.client("GET", "/v1/intents?user_id=u-1")).json["items"] == []
        assert (await s.client("GET", "/v1/ledger?kind=inbox")).json["items"] == []
