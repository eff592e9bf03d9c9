"""Declarations of an application in Python, before it starts: handlers, runs, schedules, sensors, channels and more.

Declarations are kept here and put in force when `Betimes` opens, for its own tenant: a run's handler and a new channel
in the policy, schedules and sensors as definitions under the function's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol, TypeVar

from betimes.core.checks import check_value, suggest_names
from betimes.core.errors import Invalid
from betimes.core.instants import parse_seconds
from betimes.core.names import spell_name
from betimes.domain.targets import HandlerTarget
from betimes.intents.sources import Source, check_source_name
from betimes.notifications.enrichment import Provider
from betimes.notifications.policy import IN_APP, Channel, ChannelName
from betimes.outbound.handlers import Handlers, Invoke
from betimes.runs.policy import Entry, TriggerType
from betimes.schedules.views import ScheduleRequest
from betimes.sensors.evaluators import Evaluators
from betimes.sensors.model import HandlerEvaluator
from betimes.sensors.views import SensorRequest

Function = TypeVar("Function", bound=Callable[..., Any])


_LEFT_OUT = {"debounce_seconds": 1, "cooldown_seconds": 0}
"""Fields of a trigger type that must be said somewhere, with values that any others go with."""
_SENSOR_SETTINGS = set(SensorRequest.__struct_fields__) - {"sensor_type", "target"}


class Register(Protocol):
    """A decorator that gives back what it is given."""

    def __call__(self, function: Function, /) -> Function: ...


class Declarations:
    """Functions by what they are for."""

    def __init__(self, handlers: Handlers, evaluators: Evaluators, is_open: Callable[[], bool] = lambda: False) -> None:
        self._is_open = is_open
        self.handlers = handlers
        self.evaluators = evaluators
        self.policy: dict[str, dict[str, dict[str, Any]]] = {}
        """The overrides of the policy that runs and channels need."""
        self._places: dict[str, str] = {}
        self.channels: dict[str, Invoke] = {}
        self.schedules: list[ScheduleRequest] = []
        self.sensors: list[SensorRequest] = []
        self.sources: dict[str, Source] = {}
        self.scorer: Provider | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was declared: the process only uses what others serve."""
        known = (self.handlers.functions, self.channels, self.schedules, self.sensors, self.sources)
        return not any(known) and self.scorer is None

    def _demand_closed(self, what: str) -> None:
        """Raise `Invalid` if what is declared now would never be put in force."""
        if self._is_open():
            message = f"betimes is open already, so this {what} would never be called"
            raise Invalid(f"{message}; declare it first, and open betimes afterwards")

    def handler(self, name: str) -> Register:
        """The Python handler of this name, for targets, actions and runs."""
        self._demand_closed("handler")
        _demand_called("handler", name, "@bt.handler('name')")
        return self.handlers.handler(name)

    def run(self, trigger_type: str, **entry: Any) -> Register:
        """The handler of a trigger type's runs; `entry` overrides its registry entry."""
        self._demand_closed("run")
        _demand_called("run", trigger_type, "@bt.run('TRIGGER_TYPE')")
        # What is left out may be in the policy, so it is checked when that is known: when betimes opens.
        check_value({trigger_type: {**_LEFT_OUT, **entry}}, dict[TriggerType, Entry], "runs.registry")

        def register(function: Function) -> Function:
            name = f"run.{trigger_type}"
            self.handlers.handler(name)(function)
            self._override("runs", "registry", trigger_type, {**entry, "handler": {"kind": "python", "name": name}})
            missing = [f"{field}=…" for field in _LEFT_OUT if field not in entry]
            needs = f"; a type that is not in the registry needs {' and '.join(missing)} there" if missing else ""
            declared = f"@bt.run({trigger_type!r}) of {spell_name(function)}"
            self._places[f"runs.registry.{trigger_type}."] = declared + needs
            return function

        return register

    def _override(self, section: str, table: str, name: str, entry: Mapping[str, Any]) -> None:
        self.policy.setdefault(section, {}).setdefault(table, {})[name] = entry

    def locate(self, refused: Invalid) -> Invalid:
        """Return the refusal of the policy with the functions whose declarations it is about."""
        paths = [path for path, _ in refused.problems]
        told = [place for prefix, place in self._places.items() if any(path.startswith(prefix) for path in paths)]
        return type(refused)(f"{refused}; see {', '.join(told)}", refused.problems) if told else refused

    def channel(self, name: str, **entry: Any) -> Register:
        """Deliver messages of this channel with the function; `entry` overrides its entry in the policy.

        It is given a `ChannelMessage`, and a `HandlerContext` if it takes two arguments. An error is tried again as the
        policy says; `GiveUp` ends it, `RetryAfter` has pauses of its own.
        """
        self._demand_closed("channel")
        _demand_called("channel", name, "@bt.channel('push')")
        check_value({name: entry}, dict[ChannelName, Channel], "notifications.channels")
        if name == IN_APP:
            raise Invalid("in_app needs no function: messages go to the person's feed in the commit that decides them")

        def register(function: Function) -> Function:
            if name in self.channels:
                raise Invalid(f"a channel named {name!r} exists already; choose another name")
            self.channels[name] = self.handlers.bind(function)
            self._override("notifications", "channels", name, {**entry, "function": True})
            return function

        return register

    def schedule(self, cron: str | Sequence[str] | None = None, *, tz: str | None = None, **settings: Any) -> Register:
        """Call the function at these times; the schedule's id is the function's name unless `schedule_id` is given.

        `tz` is short for `timezone`. `every` is a duration such as `15m`, or as in a definition; the other settings
        are those of a definition.
        """
        self._demand_closed("schedule")
        _demand_called("schedule", cron, "@bt.schedule('0 8 * * *')")
        _check_settings("schedule", settings, set(ScheduleRequest.__struct_fields__) - {"target", "cron"} | {"tz"})
        if tz is not None and "timezone" in settings:
            raise Invalid("tz and timezone are the same thing; give @bt.schedule one of them")
        settings.setdefault("timezone", tz or "UTC")
        if isinstance(settings.get("every"), str):
            settings["every"] = {"seconds": parse_seconds(settings["every"])}

        def register(function: Function) -> Function:
            name = settings.pop("schedule_id", None) or _name_of(function, "schedule_id")
            said = {**settings, **({} if cron is None else {"cron": cron}), "schedule_id": name}
            request = check_value({**said, "target": {"kind": "handler", "name": f"schedule.{name}"}}, ScheduleRequest)
            self.handlers.handler(f"schedule.{name}")(function)
            self.schedules.append(request)
            return function

        return register

    def sensor(self, every: str = "30s", *, target: Any = None, **settings: Any) -> Register:
        """Poll with the function; it is given the cursor and returns an `Evaluation`."""
        self._demand_closed("sensor")
        _demand_called("sensor", every, "@bt.sensor('30s', target=…)")
        if target is None:
            raise Invalid("@bt.sensor needs a target: what a change leads to")
        _check_settings("sensor", settings, _SENSOR_SETTINGS - {"interval_seconds", "evaluator"})

        def register(function: Function) -> Function:
            name = settings.pop("sensor_id", None) or _name_of(function, "sensor_id")
            self.evaluators.evaluator(name)(function)
            self.sensors.append(
                SensorRequest(
                    sensor_id=name,
                    sensor_type="poll",
                    target=target,
                    interval_seconds=parse_seconds(every),
                    evaluator=HandlerEvaluator(name),
                    **settings,
                )
            )
            return function

        return register

    def on_message(self, sensor_id: str, **settings: Any) -> Register:
        """Call the function with every message pushed to this sensor."""
        self._demand_closed("sensor")
        _demand_called("on_message", sensor_id, "@bt.on_message('sensor_id')")
        _check_settings("on_message", settings, _SENSOR_SETTINGS - {"sensor_id"})

        def register(function: Function) -> Function:
            self.handlers.handler(f"message.{sensor_id}")(function)
            target = HandlerTarget(f"message.{sensor_id}")
            self.sensors.append(SensorRequest(sensor_id=sensor_id, sensor_type="push", target=target, **settings))
            return function

        return register

    def source(self, name: str) -> Register:
        """Declare a source that conditions of intents ask: `price`, `portfolio`, `last_interaction`."""
        self._demand_closed("source")
        _demand_called("source", name, "@bt.source('name')")
        check_source_name(name)

        def register(function: Function) -> Function:
            if name in self.sources:
                raise Invalid(f"a source named {name!r} exists already; choose another name")
            self.sources[name] = function
            return function

        return register

    def enrichment(self, function: Function) -> Function:
        """Scores notifications between 0 and 1."""
        self._demand_closed("enrichment")
        self.scorer = function
        return function


def _name_of(function: Callable[..., Any], field: str) -> str:
    """Return the function's own name; raise `Invalid` for a lambda and the like, which have none."""
    name = str(getattr(function, "__name__", ""))
    if not name.isidentifier():
        raise Invalid(
            f"{name or spell_name(function)!r} is not a valid name; give {field}=…, or decorate a named function"
        )
    return name


def _demand_called(decorator: str, first: Any, example: str) -> None:
    """Raise `Invalid` for a decorator without parentheses: it would replace the function and register nothing."""
    if callable(first):
        raise Invalid(
            f"@bt.{decorator} was given a function where its first argument belongs; write {example} above it"
        )


def _check_settings(decorator: str, settings: Mapping[str, Any], known: AbstractSet[str]) -> None:
    """Raise `Invalid` with the settings that a decorator does not take."""
    unknown = settings.keys() - known
    if unknown:
        first = min(unknown)
        told = "its target is the function it decorates" if "target" in unknown else suggest_names(first, known)
        raise Invalid(f"@bt.{decorator} does not take {', '.join(sorted(unknown))}; {told}")
