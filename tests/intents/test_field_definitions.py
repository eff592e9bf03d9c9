"""A field of an intent is defined once; what is kept and what callers see is derived from that definition."""

import ast
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import msgspec
import pytest

from betimes.core.instants import Instant, parse
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.struct_forms import nested_fields, placed, read_only_fields, shown, stored
from betimes.intents import definitions, intent_view, model, views
from betimes.intents.definitions import Definition, Draft, IntentFields
from betimes.intents.intent_view import READ_ONLY, IntentView
from tests.domains.test_fields_once import names_in

At = TypeVar("At")


class NewFields(IntentFields[At], Generic[At], frozen=True, kw_only=True):
    """The fields of an intent, and a line more."""

    locale: Annotated[str, msgspec.Meta(min_length=2, max_length=12)] = "en"
    reviewed_at: At | None = None
    labels: Sequence[Annotated[str, msgspec.Meta(max_length=9)]] = ()


@placed(intent_id=None, enabled="trigger_type")
class NewDraft(NewFields[str], frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    intent_id: str | None = None
    enabled: bool = True
    schedule: definitions.DraftSchedule = definitions.DraftSchedule()


@stored()
class NewDefinition(NewFields[Instant], frozen=True, omit_defaults=True, kw_only=True):
    schedule: definitions.Schedule = definitions.Schedule()


@shown(intent_id=None, enabled="trigger_type")
class NewView(NewFields[datetime], JsonView, frozen=True, kw_only=True):
    intent_id: str
    enabled: bool
    schedule: intent_view.IntentScheduleView
    version: int


SENT = {
    "user_id": "ann",
    "trigger_type": "interval",
    "schedule": {"interval_minutes": 30},
    "action_type": "notify",
    "action_context": "Look.",
    "locale": "de",
    "reviewed_at": "2026-01-05T09:00:00Z",
    "labels": ["a", "b"],
}


def test_a_line_more_in_the_fields_is_a_field_of_every_form() -> None:
    draft = msgspec.convert(SENT, NewDraft)
    kept = derive(NewDefinition, draft, instant=parse)
    schedule = derive(intent_view.IntentScheduleView, kept.schedule, check_interval_minutes=5)
    view = derive(NewView, kept, intent_id="i", enabled=True, version=1, schedule=schedule)
    assert (kept.locale, kept.reviewed_at, kept.labels) == ("de", 1_767_603_600_000_000, ("a", "b"))
    assert (view.locale, view.reviewed_at) == ("de", datetime(2026, 1, 5, 9, tzinfo=UTC))
    assert view.to_dict()["labels"] == ["a", "b"]
    again = derive(NewDraft, kept, instant=lambda at: "2026-01-05T09:00:00Z")
    assert msgspec.json.decode(msgspec.json.encode(again)) == SENT


def test_bounds_hold_for_authors_only() -> None:
    with pytest.raises(msgspec.ValidationError, match="locale"):
        msgspec.convert({**SENT, "locale": "d" * 13}, NewDraft)
    old = {"user_id": "ann", "trigger_type": "cron", "action_type": "notify", "action_context": "", "locale": "d" * 13}
    assert msgspec.convert(old, NewDefinition).locale == "d" * 13


def test_fields_stand_where_people_read_them() -> None:
    assert NewDraft.__struct_fields__[:5] == ("intent_id", "user_id", "trigger_type", "enabled", "expires_at")
    assert NewView.__struct_fields__[:5] == ("intent_id", "user_id", "trigger_type", "enabled", "expires_at")
    assert NewDefinition.__struct_fields__[:3] == ("user_id", "trigger_type", "expires_at")


def test_an_answer_has_all_its_fields_and_no_secret() -> None:
    class Hook(msgspec.Struct, kw_only=True):
        url: str = ""
        secret: str = ""

    @shown()
    class HookView(Hook, JsonView, frozen=True): ...  # type: ignore[misc]

    assert HookView.__struct_fields__ == ("url",)
    with pytest.raises(TypeError, match="HookView cannot be filled from Definition"):
        derive(HookView, msgspec.convert(SENT, Definition))


def test_whatever_is_answered_and_cannot_be_sent_is_read_only() -> None:
    assert read_only_fields(intent_view.IntentWritten, Draft) == READ_ONLY
    assert {"next_check", "claim", "version", "warnings", "segment_id"} <= READ_ONLY
    assert not READ_ONLY & set(Draft.__struct_fields__)
    assert nested_fields(Draft) == ("schedule", "condition", "gate")


def test_every_form_of_an_intent_has_its_fields() -> None:
    fields = set(IntentFields.__struct_fields__)
    for form in (Draft, Definition, IntentView):
        assert fields <= set(form.__struct_fields__)


def test_every_field_that_an_author_decides_has_a_line_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "intents.md").read_text()
    table = page.partition("### Fields")[2].partition("###")[0]
    assert [name for name in Draft.__struct_fields__ if f"| `{name}` |" not in table] == []
    schedule = next(line for line in table.splitlines() if line.startswith("| `schedule` |"))
    assert [name for name in definitions.DraftSchedule.__struct_fields__ if f"`{name}`" not in schedule] == []


def test_nothing_lists_the_fields_of_a_report_again() -> None:
    reported = set(model.FireReport.__struct_fields__)
    for form in (model.FireIntent, views.FireRequest, views.ExecutionView):
        assert reported <= set(form.__struct_fields__)
    written = ast.parse(Path(views.__file__).read_text())
    assert all(len(names_in(node) & reported) <= len(reported) // 2 for node in ast.walk(written))
