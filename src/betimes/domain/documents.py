"""Files that people write: configurations, policies and definitions, as JSON, TOML or YAML."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from betimes.core.errors import Invalid, MissingExtra, NotFound

Format: TypeAlias = Literal["JSON", "TOML", "YAML"]
_FORMATS: dict[str, Format] = {".json": "JSON", ".toml": "TOML", ".yaml": "YAML", ".yml": "YAML"}


def read_text(path: Path) -> str:
    """Return the text in a file; raise `NotFound` or `Invalid`."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} cannot be read: {error}") from None


def parse_document(path: Path, text: str, otherwise: Format, *, may_be_empty: bool = False) -> dict[str, Any]:
    """Return the mapping in the text of a file, whose ending says what it is written in; `otherwise` is for any other.

    A YAML file of comments holds nothing, which is a mapping only if it `may_be_empty`: a policy that was cut off would
    be one that overrides nothing.

    Raise `Invalid` if it is no mapping or cannot be read, and `MissingExtra` where YAML cannot.
    """
    format = _FORMATS.get(path.suffix, otherwise)
    try:
        body = _parse_yaml(path, text) if format == "YAML" else _parse_plain(text, format)
    except ValueError as error:
        raise Invalid(f"{path} is not {format}: {error}", ((str(path), str(error)),)) from None
    if body is None and may_be_empty:
        return {}
    if not isinstance(body, dict):
        raise Invalid(f"{path} must hold a mapping of names to values")
    return body


def _parse_plain(text: str, format: Format) -> Any:
    return tomllib.loads(text) if format == "TOML" else msgspec.json.decode(text)


def _parse_yaml(path: Path, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingExtra(f"reading {path} needs PyYAML: pip install 'betimes[server]', or write it as TOML") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(error) from None
