"""Warnings about a field of a definition: it is wrong, or it is allowed and may not be meant."""

from __future__ import annotations

from betimes.domain.json_view import JsonView


class Remark(JsonView, frozen=True):
    path: str
    message: str
