"""What is said about a field of a definition: that it is wrong, or that it is allowed and may not be meant."""

from __future__ import annotations

from betimes.domain.json_view import JsonView


class Remark(JsonView, frozen=True):
    path: str
    message: str
