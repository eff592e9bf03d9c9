"""Python objects that a command line or a configuration names as `module:name`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from betimes.core.errors import Invalid, NotFound


def import_object(place: str, what: str, example: str, kind: type = object) -> Any:
    """Import what `module:name` names, also from the working folder; raise `Invalid` or `NotFound` by name.

    Raise `Invalid` if it is not of the `kind`; where another name may be meant, the error lists those of the kind.
    """
    module, _, name = place.partition(":")
    if not module or not name:
        raise Invalid(f"{place!r} does not name {what}; write module:name, such as {example}")
    if module.endswith(".py"):
        meant = ".".join(Path(module).with_suffix("").parts)
        raise Invalid(f"{place!r} names a file; write its module: {meant}:{name}")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module is there, and imports another that is not
        where = f"looked in {folder} and in what is installed"
        raise NotFound(f"there is no module {module!r} to import {name!r} from; {where}") from None
    if not hasattr(found, name):
        raise NotFound(f"the module {module!r} has no {name!r}{_list_others(found, what, kind)}")
    value = getattr(found, name)
    if not isinstance(value, kind):
        wrong = f"{place} is not a {kind.__name__} but {type(value).__name__}"
        raise Invalid(wrong + _list_others(found, what, kind))
    return value


def _list_others(module: ModuleType, what: str, kind: type) -> str:
    """Return which names of the module may be meant."""
    if kind is object:
        return ""
    names = sorted(name for name, value in vars(module).items() if isinstance(value, kind))
    return f"; there is {' and '.join(names)}" if names else f"; {module.__name__} has nothing that is {what}"
