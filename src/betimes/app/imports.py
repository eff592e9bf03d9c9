"""Python objects that a command line or a configuration names as `module:name`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from betimes.core.errors import Invalid, NotFound


def import_object(place: str, what: str, example: str) -> Any:
    """Import what `module:name` names, also from the working folder; raise `Invalid` or `NotFound` by name."""
    module, _, name = place.partition(":")
    if not module or not name:
        raise Invalid(f"{place!r} does not name {what}; say module:name, such as {example}")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module is there, and imports another that is not
        raise NotFound(f"there is no module {module!r} to take {name!r} from") from None
    if not hasattr(found, name):
        raise NotFound(f"the module {module!r} has no {name!r}")
    return getattr(found, name)
