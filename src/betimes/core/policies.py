"""Policy: the numbers and switches the rules read, one section per domain, named by a fingerprint.

A policy is data. Its body is a mapping of section names to what each section overrides; `PolicyBook` knows the
sections' types, checks every value and refuses what cannot work, with its path. A section whose type names a field in
`listed: ClassVar[str]` may be written as the list of that field alone. One with `omitted_by_default: ClassVar[bool]` is
left out of the body while it says nothing, so that policies from before there was such a section keep their names. The
fingerprint of the effective body is on every segment decided under it, and the body is kept as long as a segment names
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from betimes.core.bounds import NAME_CHARS_MAX, join_path, scan
from betimes.core.canonical import encode, fingerprint
from betimes.core.checks import list_problems, problems
from betimes.core.errors import Invalid, PolicyInvalid

Section = TypeVar("Section", bound=msgspec.Struct)
Body = Mapping[str, Any]


class Policy:
    """The effective policy of one tenant: `policy[RunsPolicy]` is its section of that type."""

    __slots__ = ("_sections", "body", "fingerprint")

    def __init__(self, named: Mapping[str, msgspec.Struct]) -> None:
        self._sections = {type(section): section for section in named.values()}
        # Sections that came later are left out while they say nothing: fingerprints on record stay as they are.
        said = {name: section for name, section in named.items() if not _is_omitted(section)}
        self.fingerprint = fingerprint(said)
        self.body = encode(said)

    def changed_from(self, before: Policy) -> frozenset[type[msgspec.Struct]]:
        """Return the sections that say something else than they did."""
        return frozenset(kind for kind, section in self._sections.items() if before._sections.get(kind) != section)

    @property
    def sections(self) -> frozenset[type[msgspec.Struct]]:
        return frozenset(self._sections)

    def __getitem__(self, section: type[Section]) -> Section:
        try:
            return self._sections[section]  # type: ignore[return-value]
        except KeyError:
            name = section.__name__
            raise Invalid(f"the policy has no section {name}; pass it as sections={{'…': {name}}}") from None


def _is_omitted(section: msgspec.Struct) -> bool:
    """Return whether a section is left out of the body: one that came later, and says nothing."""
    return getattr(section, "omitted_by_default", False) and section == type(section)()


class PolicyBook:
    """The known sections by name, and how bodies become policies."""

    def __init__(self, sections: Mapping[str, type[msgspec.Struct]] | None = None) -> None:
        self._sections = dict(sections or {})
        names: dict[type[msgspec.Struct], str] = {}
        for name, kind in self._sections.items():
            # Sections are found by their type, which could not tell the two apart.
            if names.setdefault(kind, name) != name:
                raise Invalid(
                    f"the sections {names[kind]!r} and {name!r} are both {kind.__name__}; a rule asks for its section "
                    "by type, so give each a struct of its own"
                )
        self._defaults = {name: _default_body(kind) for name, kind in self._sections.items()}

    def effective(self, *layers: Body) -> Policy:
        """Return the policy of the layers, later ones over earlier ones and all over the defaults.

        Raise `PolicyInvalid` naming every bad path.
        """
        found = [("policy", problem) for layer in layers if (problem := _no_mapping(layer))]
        # The defaults are part of the body, so that a policy says the same after a default has changed in the code.
        merged: Body = self._defaults
        for layer in layers:
            if isinstance(layer, Mapping):
                merged = merge(merged, self._spelt_out(layer))
        return self._policy(merged, found)

    def effective_from_outside(self, *layers: Body) -> Policy:
        """Return the policy of layers from outside: every text, number and instant is held against its bounds too."""
        policy = self.effective(*layers)
        found = [("policy", "cannot be written as JSON")] if any(scan(layer, Any) for layer in layers) else []
        for name, kind in self._sections.items():
            found += [(join_path(name, path), message) for path, message in scan(policy[kind], kind)]
        if found:
            raise PolicyInvalid(_sentence(found), tuple(found))
        return policy

    def from_stored(self, body: str) -> Policy:
        """Return the policy of a stored body, as it was when segments were decided under it."""
        return self._policy(msgspec.json.decode(body), [])

    def _policy(self, body: Body, found: list[tuple[str, str]]) -> Policy:
        known = f"no such section; known: {', '.join(sorted(self._sections)) or 'none'}"
        found += [(name[:NAME_CHARS_MAX], known) for name in sorted(map(str, body.keys() - self._sections.keys()))]
        sections: dict[str, msgspec.Struct] = {}
        for name, kind in self._sections.items():
            value = body.get(name, {})
            if problem := _no_mapping(value):
                found.append((name, problem))
                continue
            try:
                # The fast way tells one problem only, so what is wrong is looked for again, all of it.
                sections[name] = msgspec.convert(value, kind)
            except (msgspec.ValidationError, ValueError):
                found += problems(name, value, kind)
        if found:
            raise PolicyInvalid(_sentence(found), tuple(found))
        return Policy(sections)

    def _spelt_out(self, layer: Body) -> Body:
        """Return the layer with every list that stands for a section under the field it is short for."""
        lists = {name: value for name, value in layer.items() if isinstance(value, list | tuple)}
        fields = {name: getattr(self._sections.get(name), "listed", None) for name in lists}
        return {**layer, **{name: {field: lists[name]} for name, field in fields.items() if field}}


def merge(base: Body, over: Body) -> dict[str, Any]:
    """Return a layer of policy over another: mappings are merged key by key, everything else is replaced.

    Unlike in a merge patch, `None` is a value, which a section may refuse.
    """
    merged = dict(base)
    for name, value in over.items():
        below = merged.get(name)
        if isinstance(below, Mapping) and isinstance(value, Mapping) and not _is_another_kind(below, value):
            merged[name] = merge(below, value)
        else:
            merged[name] = value
    return merged


def _is_another_kind(below: Body, value: Body) -> bool:
    """Return whether the two differ in their `kind`: nothing of the one would make sense in the other then."""
    return "kind" in below and "kind" in value and bool(below["kind"] != value["kind"])


def _default_body(kind: type[msgspec.Struct]) -> Body:
    """Return the body of a section in which nothing is overridden; entries of a table stay when others are."""
    # A section that has to say something has no form in which it says nothing.
    if any(field.required for field in msgspec.structs.fields(kind)):
        return {}
    body: Body = msgspec.to_builtins(kind())
    return body


def _no_mapping(value: Any) -> str:
    """Return the problem with the shape of a body or section, or nothing."""
    return "" if isinstance(value, Mapping) else f"expected a mapping of names to values, got {type(value).__name__}"


def _sentence(found: Sequence[tuple[str, str]]) -> str:
    return f"the policy is refused: {list_problems(found)}"
