"""Definitions and policies from files: JSON, TOML or YAML; `-` is standard input, as JSON."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from cyclopts import Parameter

from betimes.core.errors import Invalid, MissingExtra, NotFound

File: TypeAlias = Annotated[Path, Parameter(allow_leading_hyphen=True)]
"""A file's name, or `-`."""


def document(path: Path) -> dict[str, Any]:
    """The mapping a file holds."""
    body = _parse(path, _text(path))
    if not isinstance(body, dict):
        raise Invalid(f"{path} must hold a mapping of names to values")
    return body


def policy_document(path: Path) -> dict[str, Any]:
    """Return the policy in a file that is one, or in a configuration, which has it as one of its sections."""
    body = document(path)
    inner = body.get("policy")
    return inner if isinstance(inner, dict) else body


def _text(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_bytes().decode()
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} cannot be read: {error}") from None


def _parse(path: Path, text: str) -> Any:
    try:
        if path.suffix == ".toml":
            return tomllib.loads(text)
        if path.suffix in (".yaml", ".yml"):
            return _yaml(path, text)
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, tomllib.TOMLDecodeError) as error:
        raise Invalid(f"{path} cannot be read: {error}") from None


def _yaml(path: Path, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingExtra(f"reading {path} needs PyYAML: pip install 'betimes[server]'") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Invalid(f"{path} cannot be read: {error}") from None
