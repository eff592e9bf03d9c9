"""The one door: values from outside are checked against a type here, and everything wrong with them is named.

msgspec stops at the first problem; people who fix a request or a policy want them all. `examine` converts, holds every
text, number and instant against its bounds (`core.bounds`), and where something is wrong looks again part by part. The
sound parts of a struct are kept as a `Partial`, so that the rules of a domain can still judge them: a rule that reads
a wrong part stops there, and one answer names problems of shape and of rules. Paths are dotted: `items[3].title`.

The work is linear in what was sent and bounded: the first `PROBLEMS_MAX` problems are described, the others counted,
and after `LOOKED_AT_MAX` parts nobody looks any further.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from heapq import nsmallest
from types import FunctionType
from typing import Any, Generic, TypeAlias, TypeVar, get_args, get_origin

import msgspec

from betimes.core.bounds import DEPTH_MAX as DEPTH_MAX
from betimes.core.bounds import NAME_CHARS_MAX, join_path, scan
from betimes.core.bounds import within_depth as within_depth
from betimes.core.errors import PROBLEMS_MAX, Invalid
from betimes.core.names import find_near_names, spell_name
from betimes.core.problem_texts import describe_problem, join_choices
from betimes.core.type_hints import is_struct, metas, plain_type

T = TypeVar("T")
Found = TypeVar("Found")
Problem = tuple[str, str]
Rule: TypeAlias = Callable[[T], Iterable[Problem]]
LOOKED_AT_MAX = 10_000
"""Parts of something wrong that are looked at one by one."""
MESSAGE_CHARS_MAX = 500
"""Length of one problem's message, which may quote what was sent."""
COMPARED_CHARS_MAX = 40
"""Of an unknown name that is compared with the known ones: comparing takes the square of its length."""
SYNONYMS = (("tz", "timezone", "zone", "time_zone", "tzinfo"), ("domain", "kind"))
"""Names of one thing that are not spelled alike."""
_fields_of = cache(msgspec.structs.fields)
_REFUSED = (msgspec.ValidationError, ValueError, OverflowError, Invalid)


def check_value(value: Any, kind: type[T], path: str = "", rules: Sequence[Rule[T]] = ()) -> T:
    """Return the value as that type; raise `Invalid` with every problem found in it, those of the rules included.

    The rules are asked only when the shape is wrong: whoever has rules judges a sound value by them itself.
    """
    return examine(value, kind, path).whole(rules)


def examine(value: Any, kind: type[T], path: str = "") -> Examined[T]:
    """Return the value as far as it is sound, and everything that is wrong with its shape."""
    found = Findings()
    return Examined(_build(path, value, kind, found), found, path)


def problems(path: str, value: Any, kind: Any) -> list[Problem]:
    """Return the first problems at or below the path; those of parts come instead of the whole's."""
    return examine(value, kind, path).found.first


class Findings:
    """Problems that were found: the first of them, and how many there are."""

    def __init__(self, first: Iterable[Problem] = ()) -> None:
        self.first: list[Problem] = []
        self.total = 0
        self.looked_at = 0
        if first:
            self.extend(first)

    def add(self, path: str, message: str) -> None:
        self.total += 1
        if self.describes_more:
            self.first.append((path, message[:MESSAGE_CHARS_MAX]))

    @property
    def describes_more(self) -> bool:
        return len(self.first) < PROBLEMS_MAX

    def extend(self, found: Iterable[Problem]) -> None:
        for path, message in found:
            self.add(path, message)

    def touches(self, path: str) -> bool:
        """Return whether a problem is known at the path, above or below it."""
        return _touch(self.first, path)

    def refusal(self, what: str = "field") -> Invalid:
        """Return `Invalid` that says how many of them are wrong, and what is wrong with the first."""
        count = f"{self.total:,} {what}s are" if self.total > 1 else f"1 {what} is"
        return Invalid(f"{count} wrong: {list_problems(self.first, self.total)}", tuple(self.first), self.total)


class Examined(Generic[T]):
    """A value as a type: whole, or in part with its problems."""

    def __init__(self, value: T, found: Findings | None = None, path: str = "") -> None:
        self.value = value
        """Where something is wrong, a `Partial` in its place."""
        self.found = Findings() if found is None else found
        self.path = path
        self._misshapen = tuple(self.found.first)

    def whole(self, rules: Sequence[Rule[T]] = ()) -> T:
        """Return the value in which nothing is wrong; raise `Invalid` with all that is, by the rules too."""
        if self.found.total:
            self.judge(rules)
            raise self.found.refusal()
        return self.value

    def judge(self, rules: Sequence[Rule[T]]) -> None:
        """Add what the rules say; where the shape is known to be wrong they have nothing to add."""
        for rule in rules:
            try:
                for path, message in rule(self.value):
                    place = join_path(self.path, path)
                    if not _touch(self._misshapen, place):
                        self.found.add(place, message)
            except Unreadable:  # every request is judged here, and `suppress` costs more than most rules
                continue


def broken_rules(subject: T, rules: Iterable[Callable[[T], Iterable[Found]]]) -> Iterator[Found]:
    """Yield what every rule finds, in their order; one that reads a part that is wrong ends there."""
    for rule in rules:
        with suppress(Unreadable):
            yield from rule(subject)


def obey(*rules: Callable[[], object]) -> None:
    """Ask every rule of a `__post_init__`; one that reads a part that is wrong ends there and hides no other."""
    for rule in rules:
        try:  # not `suppress`, which costs as much as a rule: every request comes by here
            rule()
        except Unreadable:
            continue


def readable(items: Iterable[T]) -> Iterator[tuple[int, T]]:
    """Yield the items whose shape is right, each with its place."""
    return ((place, item) for place, item in enumerate(items) if item is not BROKEN)


def refusal(what: str, found: Iterable[Problem]) -> Invalid:
    """Return `Invalid` that says how many of them are wrong, and what is wrong with the first."""
    return Findings(found).refusal(what)


def list_problems(found: Sequence[Problem], total: int = 0) -> str:
    """Return the first problems in one line, and how many there are besides."""
    listed = "; ".join(f"{path or 'the body'}: {message}" for path, message in found[:PROBLEMS_MAX])
    more = max(total, len(found)) - PROBLEMS_MAX
    return f"{listed}; and {more:,} more" if more > 0 else listed


# -- in part


class Unreadable(Exception):
    """A rule read a part that has the wrong shape."""


class _Broken:
    """Stands for a part whose shape is wrong."""

    def __getattr__(self, name: str) -> Any:
        raise Unreadable(name)


BROKEN = _Broken()


class Partial:
    """A struct in which something is wrong: its sound fields are there, reading another raises `Unreadable`.

    To `isinstance` and to patterns it is the struct, and it has the struct's own properties and methods.
    """

    def __init__(self, kind: type, parts: dict[str, Any]) -> None:
        self._kind = kind
        self._parts = parts

    @property
    def __class__(self) -> type:
        return self._kind

    @__class__.setter
    def __class__(self, kind: type) -> None:
        raise AttributeError("a partial value keeps its type")

    def __getattr__(self, name: str) -> Any:
        if name in self._parts:
            part = self._parts[name]
            if part is BROKEN:
                raise Unreadable(name)
            return part
        own = inspect.getattr_static(self._kind, name)
        if isinstance(own, FunctionType | property | cached_property):
            return own.__get__(self, self._kind)
        return getattr(self._kind, name)

    def _replace(self, parts: Mapping[str, Any]) -> Partial:
        return Partial(self._kind, {**self._parts, **parts})


def _build(path: str, value: Any, kind: Any, found: Findings) -> Any:
    """Return the value converted; where it is wrong, a part of it, and what is wrong is added to what was found."""
    found.looked_at += 1
    off: list[Problem] = []
    message = ""
    try:
        built = msgspec.convert(value, kind)
        off = scan(built, kind)
        if not off:
            return built
    except _REFUSED as error:
        message = str(error)
    known = found.total
    part: Any = BROKEN
    if found.looked_at < LOOKED_AT_MAX:
        part = _build_parts(path, value, kind, found)
    # Only if no part is to blame: what msgspec says of the whole would repeat what is said of the part.
    if found.total == known:
        found.extend([(join_path(path, below), said) for below, said in off] or [_locate(path, message, value, kind)])
    return part


def _build_parts(path: str, value: Any, kind: Any, found: Findings) -> Any:
    plain = plain_type(kind, value)
    if isinstance(value, Mapping) and is_struct(plain):
        return _build_struct(path, value, plain, found)
    if isinstance(value, Mapping) and get_origin(plain) is dict and get_args(plain)[1] is not Any:
        if not _fits(path, value, kind, found):
            return BROKEN
        return {
            name: _build(join_path(path, str(name)[:NAME_CHARS_MAX]), item, get_args(plain)[1], found)
            for name, item in _some(value.items(), found)
        }
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if is_list and get_origin(plain) in (list, tuple) and _fits(path, value, kind, found):
        kind_of_items = get_args(plain)[0]
        return [_build(f"{path}[{at}]", item, kind_of_items, found) for at, item in _some(enumerate(value), found)]
    return BROKEN


def _some(items: Iterable[T], found: Findings) -> Iterator[T]:
    """Yield items as long as anybody looks."""
    for item in items:
        if found.looked_at >= LOOKED_AT_MAX:
            return
        yield item


def _fits(path: str, value: Any, kind: Any, found: Findings) -> bool:
    """Return whether a container is of a length it may have; what is too long is not looked through."""
    for meta in metas(kind):
        for bound, sign in ((meta.min_length, 1), (meta.max_length, -1)):
            if bound is not None and (bound - len(value)) * sign > 0:
                found.add(path, f"{'at least' if sign > 0 else 'at most'} {bound:,}; it has {len(value):,}")
                return False
    return True


def _build_struct(path: str, value: Mapping[Any, Any], kind: type[msgspec.Struct], found: Findings) -> Any:
    parts: dict[str, Any] = {}
    fields = _fields_of(kind)
    for field in fields:
        place = join_path(path, field.encode_name)
        if field.encode_name in value:
            parts[field.name] = _build(place, value[field.encode_name], field.type, found)
        else:
            parts[field.name] = _default(field)
            if field.required:
                found.add(place, "is required")
    if kind.__struct_config__.forbid_unknown_fields:
        known = {field.encode_name for field in fields} | {kind.__struct_config__.tag_field}
        unknown = value.keys() - known
        for name in nsmallest(PROBLEMS_MAX, (spell_name(name)[:NAME_CHARS_MAX] for name in unknown)):
            said = f"no such field; {suggest_names(name, filter(None, known))}" if found.describes_more else ""
            found.add(join_path(path, name), said)
        # All of them count; only the first are described.
        found.total += max(len(unknown) - PROBLEMS_MAX, 0)
    return _obeying(path, Partial(kind, parts), found)


def suggest_names(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: the known names it may stand for, or all of them."""
    names = sorted(known)
    # Whoever leaves the unit out, as in `debounce`, may mean any that begins so: the shortest is not the nearest.
    begun = [one for one in names if one.startswith(f"{name}_")]
    alike = [one for group in SYNONYMS if name in group for one in group if one in names][:1]
    near = begun or alike or (find_near_names(name, names) if len(name) <= COMPARED_CHARS_MAX else [])
    if not near:
        return f"known: {', '.join(names)}" if names else "none is defined"
    return f"did you mean {join_choices(near)}?"


def _obeying(path: str, part: Partial, found: Findings) -> Any:
    """Return the part after its struct's own `__post_init__`, which is asked again with each field it refuses unset."""
    defaults = {field.name: _default(field) for field in _fields_of(part._kind)}
    tried, refused = part, dict[str, Any]()
    while True:
        try:
            getattr(tried, "__post_init__", lambda: None)()
        except (Unreadable, TypeError):
            break  # it reads what is wrong, or encodes what holds it
        except (ValueError, Invalid) as error:
            name, colon, message = str(error).partition(": ")
            if not colon or name not in defaults:
                found.add(path, str(error))
                return BROKEN
            if name in refused:
                break
            found.add(join_path(path, name), message)
            refused[name] = BROKEN
            tried = tried._replace({name: defaults[name]})
        else:
            break
    return part._replace(refused)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return BROKEN if field.default is msgspec.NODEFAULT else field.default


def _is_within(path: str, whole: str) -> bool:
    return path == whole or path.startswith((f"{whole}.", f"{whole}[")) or not whole


def _touch(found: Iterable[Problem], path: str) -> bool:
    return any(_is_within(path, known) or _is_within(known, path) for known, _ in found)


def _locate(path: str, message: str, value: Any, kind: Any) -> Problem:
    """Return what msgspec says of a value, with its path and with the examples of its type."""
    below, said = describe_problem(message, kind if " regex " in message else plain_type(kind, value))
    examples = [one for meta in metas(kind) for one in meta.examples or ()]
    if examples and not below:
        said += f"; such as {msgspec.json.encode(examples[0]).decode()}"
    return join_path(path, below), said
