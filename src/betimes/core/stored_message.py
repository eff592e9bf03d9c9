"""The base of what is stored under its own name: commands, events, and replies of more than one sort."""

from __future__ import annotations

from typing import dataclass_transform

import msgspec


# Without this a type checker asks every subclass to say again that it is frozen.
@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class StoredMessage(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """A frozen struct whose class is its tag in JSON, with fields that say nothing new left out.

    What was written once is read and folded for ever: give a field that comes later a default, and never rename a class
    without keeping its tag.
    """
