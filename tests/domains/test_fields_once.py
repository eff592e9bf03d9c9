"""A field that people define is written once; every form of it and every copy is derived from that line."""

import ast
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import msgspec
import pytest
from msgspec import UNSET, UnsetType

import betimes
from betimes.core.canonical import encode
from betimes.core.datetimes import Moment
from betimes.core.instants import Instant
from betimes.domain.derivation import derive
from betimes.domain.json_view import JsonView
from betimes.domain.struct_forms import LEFT_OUT, placed, read_only_fields, shown, stored
from betimes.intents.definitions import IntentFields
from betimes.notifications.views import PreferencesFields
from betimes.schedules.model import ScheduleDefinition, ScheduleFields
from betimes.schedules.recurrence import Every
from betimes.schedules.views import (
    SCHEDULE_READ_ONLY,
    DstView,
    EveryRequest,
    EveryView,
    ExcludeView,
    ScheduleRequest,
    ScheduleWritten,
)
from betimes.scores.views import Score
from betimes.sensors.model import SensorFields
from betimes.sensors.views import SENSOR_READ_ONLY, SensorRequest, SensorWritten

At = TypeVar("At")
EveryForm = TypeVar("EveryForm")
Absent = TypeVar("Absent")
Grace = Annotated[int, msgspec.Meta(ge=1, le=9)]
TARGET = {"kind": "handler", "name": "brief"}


class MoreOfSchedules(ScheduleFields[At, EveryForm, Absent], Generic[At, EveryForm, Absent], frozen=True, kw_only=True):
    """The fields of a schedule, and two lines more."""

    grace_minutes: Grace | Absent = LEFT_OUT
    reviewed_at: At | Absent = LEFT_OUT


@placed(every="cron", schedule_id="target")
class LongerRequest(MoreOfSchedules[Moment, EveryRequest, None], frozen=True, kw_only=True):
    schedule_id: str | None = None


@stored()
class LongerDefinition(MoreOfSchedules[Instant, Every, UnsetType], frozen=True, kw_only=True): ...


@shown(schedule_id=None)
class LongerView(MoreOfSchedules[datetime, EveryView, None], JsonView, frozen=True, kw_only=True):
    schedule_id: str
    dst: DstView
    exclude: ExcludeView | None


def test_a_line_more_is_a_field_of_a_schedule_as_it_is_sent_kept_and_shown() -> None:
    sent = {"cron": "0 9 * * *", "target": TARGET, "grace_minutes": 3, "reviewed_at": "2026-01-05T09:00:00Z"}
    kept = derive(LongerDefinition, msgspec.convert(sent, LongerRequest))
    assert (kept.grace_minutes, kept.reviewed_at) == (3, 1_767_603_600_000_000)
    view = derive(LongerView, kept, schedule_id="s").to_dict()
    assert {name: view[name] for name in sent} == sent
    with pytest.raises(msgspec.ValidationError, match="grace_minutes"):
        msgspec.convert({**sent, "grace_minutes": 10}, LongerRequest)


def test_a_definition_from_before_a_field_is_kept_to_the_byte() -> None:
    before = encode(derive(ScheduleDefinition, msgspec.convert({"cron": "@daily", "target": TARGET}, ScheduleRequest)))
    kept = msgspec.json.decode(before, type=LongerDefinition)
    assert (kept.grace_minutes, encode(kept)) == (UNSET, before)
    assert derive(LongerView, kept, schedule_id="s").grace_minutes is None


class MoreOfSensors(SensorFields[Absent], Generic[Absent], frozen=True, kw_only=True):
    """The fields of a sensor, and a line more."""

    labels: tuple[Annotated[str, msgspec.Meta(max_length=9)], ...] | Absent = LEFT_OUT


@stored()
class LongerSensor(MoreOfSensors[UnsetType], frozen=True, kw_only=True): ...


@shown()
class LongerSensorView(MoreOfSensors[None], JsonView, frozen=True, kw_only=True): ...


def test_a_line_more_is_a_field_of_a_sensor_as_it_is_kept_and_shown() -> None:
    sent = {"sensor_type": "push", "target": TARGET, "labels": ["a"]}
    kept = derive(LongerSensor, msgspec.convert(sent, MoreOfSensors[None]))
    assert kept.labels == ("a",)
    assert derive(LongerSensorView, kept).to_dict()["labels"] == ["a"]


def test_whatever_is_answered_and_cannot_be_sent_is_read_only() -> None:
    assert read_only_fields(ScheduleWritten, ScheduleRequest) == SCHEDULE_READ_ONLY
    assert read_only_fields(SensorWritten, SensorRequest) == SENSOR_READ_ONLY
    assert {"secret", "push_url", "cursor"} <= SENSOR_READ_ONLY


@pytest.mark.parametrize(
    ("folder", "fields", "listed"),
    [
        ("intents", IntentFields, "definitions.py:IntentFields"),
        ("schedules", ScheduleFields, "model.py:ScheduleFields"),
        ("sensors", SensorFields, "model.py:SensorFields"),
        ("scores", Score, "views.py:Score"),
        ("notifications", PreferencesFields, "views.py:PreferencesFields"),
    ],
)
def test_nothing_lists_the_fields_again(folder: str, fields: type[msgspec.Struct], listed: str) -> None:
    """No class, call or literal in the folder names most of them, but the one that defines them."""
    names = set(fields.__struct_fields__)
    found = {
        f"{path.name}:{getattr(node, 'name', type(node).__name__)}"
        for path in (Path(betimes.__path__[0]) / folder).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if len(names_in(node) & names) > len(names) * 2 // 3
    }
    assert found - ALLOWED == {listed}


ALLOWED = {
    "model.py:Preferences",  # as they are kept: quiet hours in minutes, an opt-out that leaves out defaults
}


def names_in(node: ast.AST) -> set[Any]:
    """Return the names that a class, a call or a literal lists."""
    match node:
        case ast.ClassDef(body=body):
            return {
                line.target.id for line in body if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
            }
        case ast.Call(keywords=keywords):
            return {keyword.arg for keyword in keywords}
        case ast.Dict(keys=keys):
            return {key.value for key in keys if isinstance(key, ast.Constant)}
        case ast.Set(elts=items) | ast.Tuple(elts=items) | ast.List(elts=items):
            return {item.value for item in items if isinstance(item, ast.Constant)}
        case _:
            return set()
