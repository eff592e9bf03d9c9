"""Definitions and policies from files: JSON, TOML or YAML; `-` is standard input, as JSON."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter

from betimes.domain.documents import parse_document, read_text

File: TypeAlias = Annotated[Path, Parameter(allow_leading_hyphen=True)]
"""A file's name, or `-`."""


def document(path: Path) -> dict[str, Any]:
    """The mapping a file holds."""
    return parse_document(path, sys.stdin.read() if str(path) == "-" else read_text(path), "JSON")


def policy_document(path: Path) -> dict[str, Any]:
    """Return the policy in a file that is one, or in a configuration, which has it as one of its sections."""
    body = document(path)
    inner = body.get("policy")
    return inner if isinstance(inner, dict) else body
