"""The domains' part of the reference: policy settings, rules, commands, events and routes, read from the code."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from betimes.app.routes import ROUTES
from betimes.backtest.decide import BACKTESTS
from betimes.catalogue import AREAS, DOMAINS, SECTIONS, spell_scope
from betimes.core.canonical import encode
from betimes.core.deciders import Decider
from betimes.core.verdicts import readable_template
from betimes.engine.codecs import structs_in


def domains() -> Iterator[str]:
    for name in AREAS:
        yield from ("", f"## {name.capitalize()}", "", f"See [{name.capitalize()}]({name}.md).", "")
        yield from _policy(name)
        for decider in (decider for domain in DOMAINS if domain.area == name for decider in domain.deciders):
            yield from _kind(decider)
    yield from ("", "## Backtests", "", "See [Backtests](backtest.md).")
    yield from _kind(BACKTESTS)
    yield from ("", "## Hooks", "")
    yield from _policy("hooks")
    yield ""
    yield from _policy("limits")


def routes() -> Iterator[str]:
    yield from ("", "## HTTP", "")
    yield f"`any:read` is {spell_scope('any:read')};"
    yield "`any:write` is the same for writing. A key can read and change the domains of its scopes."
    yield from ("", "| route | scope | |", "|---|---|---|")
    for route in sorted(ROUTES, key=lambda route: (route.path, route.method)):
        batch = " (batch)" if route.batch else ""
        yield f"| `{route.method} {route.path}`{batch} | {route.scope} | {route.summary} |"


def _policy(name: str) -> Iterator[str]:
    """Every setting of the section and of what it is made of."""
    yield from (f"### Policy `{name}`", "", "| setting | default | |", "|---|---|---|")
    for struct in structs_in(SECTIONS[name], set()):
        where = name if struct is SECTIONS[name] else struct.__name__
        notes = field_notes(struct)
        for field in msgspec.structs.fields(struct):
            yield f"| `{where}.{field.encode_name}` | {_default(field)} | {notes.get(field.name, '')} |"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return f"`{encode(value)}`" if _is_plain(value) else "see its page"


def _is_plain(value: Any) -> bool:
    return len(repr(value)) <= 60 and not isinstance(value, msgspec.Struct)


def _kind(decider: Decider[Any]) -> Iterator[str]:
    yield from ("", f"### Stream `{decider.kind}`", "")
    yield f"Commands: {_names(decider.commands)}"
    yield ""
    yield f"Events: {_names(decider.events)}"
    if decider.reasons:
        yield from ("", "Reasons:", "", "| reason | meaning |", "|---|---|")
        yield from (f"| `{code}` | {meaning} |" for code, meaning in decider.reasons.items())
    for table in decider.tables:
        yield from (
            "",
            f"Rules `{table.name}`, in order:",
            "",
            "| rule | sees | says | says when it does not match |",
            "|---|---|---|---|",
        )
        for rule in table.rules:
            sees = ", ".join(f"`{name}`" for name in rule.sees)
            passes = readable_template("; ".join(dict.fromkeys(filter(None, (rule.passes, rule.absent)))))
            yield f"| {rule.name} | {sees} | {readable_template(rule.says)} | {passes} |"
        yield f"| otherwise | | {table.otherwise.answer} {table.otherwise.reason} |"


def _names(union: Any) -> str:
    return ", ".join(f"`{kind.__name__}`" for kind in (get_args(union) or (union,)))


def field_notes(kind: type[Any]) -> dict[str, str]:
    """The string under each field, which `inspect` does not keep."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    notes = {}
    for field, note in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(note, ast.Expr) and isinstance(note.value, ast.Constant):
            assert isinstance(field.target, ast.Name)
            notes[field.target.id] = " ".join(str(note.value.value).split())
    return notes
