"""Targets and hooks: each kind becomes the one effect that asks for it, under the cause's key."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from betimes.core.checks import check_value
from betimes.core.deciders import Call, Send
from betimes.core.errors import Invalid, PolicyInvalid
from betimes.core.instants import parse
from betimes.core.policies import PolicyBook
from betimes.core.streams import StreamId
from betimes.domain.hooks import Hooks, hook_effects
from betimes.domain.targets import (
    Cause,
    CommandTarget,
    HandlerTarget,
    NotificationTarget,
    StreamName,
    SweepTarget,
    Target,
    TriggerTarget,
    WebhookTarget,
    effect_of,
)
from betimes.notifications.model import Notify
from betimes.runs.model import RequestRun

AT = parse("2026-01-05T09:00:00Z")
RUN = StreamId("acme", "run", "run_1")
CAUSE = Cause(key="sched:daily:1", at=AT, subject="ann", payload={"n": 1}, body={"b": 2}, report_to=RUN)


def test_a_trigger_is_asked_of_its_account_and_knows_its_run() -> None:
    send = effect_of("acme", TriggerTarget("SIGNAL_ARRIVED", "acct"), CAUSE)
    assert send == Send(
        StreamId("acme", "account", "acct"),
        RequestRun("SIGNAL_ARRIVED", scheduled_at=AT, payload={"n": 1}, run_id="run_1"),
        "sched:daily:1",
        "triggers",
        "acct|SIGNAL_ARRIVED",
    )


def test_whoever_is_not_named_is_the_subject() -> None:
    trigger = effect_of("acme", TriggerTarget("SIGNAL_ARRIVED"), CAUSE)
    notification = effect_of("acme", NotificationTarget("MESSAGE", "t", "m", "s", ("push",)), CAUSE)
    assert isinstance(trigger, Send)
    assert isinstance(notification, Send)
    assert (trigger.to.id, notification.to.id) == ("ann", "ann")


def test_a_notification_is_told_to_its_inbox_and_reports() -> None:
    target = NotificationTarget("ALERT", "t", "m", "s", ("push", "sms"), "bob", "HIGH", metadata={"k": 0})
    send = effect_of("acme", target, CAUSE)
    assert isinstance(send, Send)
    assert (send.to, send.key, send.collection, send.request) == (
        StreamId("acme", "inbox", "bob"),
        "sched:daily:1",
        "notifications",
        "bob",
    )
    assert isinstance(send.command, Notify)
    assert (send.command.priority_hint, send.command.happened_at, send.command.report_to) == ("HIGH", AT, RUN)
    assert send.command.metadata == {"k": 0, "n": 1}


def test_calls_name_their_executor_and_report_their_end() -> None:
    assert effect_of("acme", SweepTarget(), CAUSE) == Call("sweep", report_to=RUN)
    assert effect_of("acme", HandlerTarget("brief"), CAUSE) == Call("handler:brief", {"b": 2}, report_to=RUN)
    called = effect_of("acme", WebhookTarget("https://example.org"), CAUSE)
    assert called == Call("webhook", {"url": "https://example.org", "body": {"b": 2}}, report_to=RUN)


def test_a_command_goes_to_a_stream_as_it_is_written_with_the_authority_of_its_author() -> None:
    command = {"type": "ReportActions", "count": 1, "at": AT}
    send = effect_of("acme", CommandTarget(StreamName("account", "a"), command), CAUSE)
    assert send == Send(StreamId("acme", "account", "a"), command, "sched:daily:1", authority=("admin",))


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"kind": "trigger", "trigger_type": "lower"}, "trigger_type"),
        ({"kind": "handler", "name": "a b"}, "name"),
        ({"kind": "webhook", "url": "ftp://x"}, "url"),
        ({"kind": "webhook", "url": "https://x", "colour": 1}, "colour"),
        (
            {
                "kind": "notification",
                "event_type": "ALERT",
                "title": "t",
                "message": "m",
                "source": "s",
                "channels": [],
            },
            "channels",
        ),
        ({"kind": "command", "stream": {"kind": "UP", "id": "x"}, "command": {}}, "stream.kind"),
        ({"kind": "dance"}, "kind"),
    ],
)
def test_a_target_that_cannot_work_is_refused_by_its_path(body: dict[str, Any], path: str) -> None:
    with pytest.raises(Invalid) as refusal:
        check_value(body, Target)  # type: ignore[arg-type]
    assert [found for found, _ in refusal.value.problems] == [path]


# -- hooks

BOOK = PolicyBook({"hooks": Hooks})


def hooks(*entries: Any, **rest: Any) -> Any:
    policy = BOOK.effective({"hooks": {"entries": list(entries), **rest}})
    return hook_effects(policy, "acme", "GAME_OVER", key="score:ann:7", at=AT, subject="ann", detail={"user_id": "ann"})


def test_only_hooks_on_the_occasion_are_caused_each_under_a_key_of_its_own() -> None:
    effects = hooks(
        {"on": ["RUN_DECISION"], "target": {"kind": "handler", "name": "other"}},
        {"on": ["GAME_OVER", "SCORE_THRESHOLD"], "target": {"kind": "trigger", "trigger_type": "SIGNAL_ARRIVED"}},
        {"on": ["GAME_OVER"], "target": {"kind": "webhook", "url": "https://example.org"}},
        source="mine",
    )
    assert [(effect.to.id, effect.key) for effect in effects if isinstance(effect, Send)] == [
        ("ann", "score:ann:7:hook:1")
    ]
    body = {"source": "mine", "detail-type": "GAME_OVER", "detail": {"user_id": "ann"}}
    assert effects[1] == Call("webhook", {"url": "https://example.org", "body": body})
    assert hooks() == ()


def test_hooks_are_written_as_a_list_and_a_bad_one_is_named() -> None:
    assert BOOK.effective({"hooks": [{"on": ["GAME_OVER"], "target": {"kind": "sweep"}}]})[Hooks].entries
    with pytest.raises(PolicyInvalid) as refusal:
        BOOK.effective({"hooks": [{"on": ["DINNER"], "target": {"kind": "handler", "name": ""}}]})
    paths = [path for path, _ in refusal.value.problems]
    assert paths == ["hooks.entries[0].on[0]", "hooks.entries[0].target.name"]


def test_a_notification_that_expires_says_so_in_utc() -> None:
    body = {
        "kind": "notification",
        "event_type": "ALERT",
        "title": "t",
        "message": "m",
        "source": "s",
        "channels": ["push"],
        "expires_at": "2026-01-05T10:00:00+01:00",
    }
    target = msgspec.convert(body, NotificationTarget)
    assert msgspec.to_builtins(target)["expires_at"] == "2026-01-05T09:00:00Z"
    sent = effect_of("acme", target, CAUSE)
    assert isinstance(sent, Send)
    assert isinstance(sent.command, Notify)
    assert sent.command.expires_at == parse("2026-01-05T09:00:00Z")
