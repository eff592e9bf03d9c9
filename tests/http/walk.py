"""The walk of one notification: every function of ours that is called from its request to its answer.

    python -m tests.http.walk

prints the files in the order they are entered, with the calls into each. Fakes nothing: the ASGI application, the
engine and a SQLite file are real. The page on the architecture shows what it prints.
"""

from __future__ import annotations

import asyncio
import dis
import sys
import threading
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any, Self

import betimes
from tests.http.served import site

PACKAGE = Path(betimes.__file__).parent
GENERATED = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<lambda>")


class Walk:
    """Counts calls into the package while it is switched on, in every thread."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self._is_on = False
        self._known: dict[CodeType, tuple[tuple[str, str] | None, int]] = {}

    def __enter__(self) -> Self:
        self._is_on = True
        return self

    def __exit__(self, *_: object) -> None:
        self._is_on = False

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not self._is_on:
            return
        name, begins_at = self._know(frame.f_code)
        if name and frame.f_lasti <= begins_at:
            self.calls[name] += 1  # a coroutine that is resumed is no new call

    def _know(self, code: CodeType) -> tuple[tuple[str, str] | None, int]:
        """Return the file and name of a function of ours, and the instruction at which it begins."""
        if code not in self._known:
            path = Path(code.co_filename)
            is_ours = path.is_relative_to(PACKAGE) and code.co_name not in GENERATED
            name = (path.relative_to(PACKAGE).as_posix(), code.co_name) if is_ours else None
            begins_at = next(one.offset for one in dis.get_instructions(code) if one.opname == "RESUME")
            self._known[code] = name, begins_at
        return self._known[code]

    @property
    def files(self) -> dict[str, int]:
        """Return the files that were entered, in that order, each with the calls into it."""
        found: dict[str, int] = {}
        for (file, _), count in self.calls.items():
            found[file] = found.get(file, 0) + count
        return found

    @property
    def total(self) -> int:
        return self.calls.total()


def notification(event_id: str, user_id: str) -> dict[str, Any]:
    return {
        "event_id": event_id,
        "user_id": user_id,
        "event_type": "ALERT",
        "title": f"Order {event_id}",
        "message": f"Your order {event_id} is on its way.",
        "source": "shop",
        "channels": ["push"],
        "priority_hint": "HIGH",
    }


async def walk_of_one_notification(url: str) -> Walk:
    """Return the walk of a notification to somebody whose inbox is known, in a process that has warmed up."""
    walk = Walk()
    threading.setprofile(walk.profile)
    try:
        async with site(url=url) as served:
            for number in range(3):
                warm = await served.client("POST", "/v1/notifications", notification(f"warm-{number}", f"u{number}"))
                assert warm.status in (200, 201), warm.raw
            served.clock.advance(86_400)
            # Somebody whose inbox is known hears of something again: statements and texts are kept from the first time.
            again = await served.client("POST", "/v1/notifications", notification("again", "u2"))
            assert again.status in (200, 201), again.raw
            sys.setprofile(walk.profile)
            with walk:
                reply = await served.client("POST", "/v1/notifications", notification("one", "u1"))
            sys.setprofile(None)
            assert reply.json.get("outcome") == "NOW", reply.raw
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return walk


def main() -> None:
    with TemporaryDirectory() as folder:
        walk = asyncio.run(walk_of_one_notification(f"sqlite:///{folder}/walk.db"))
    for file, calls in walk.files.items():
        print(f"{calls:>4}  {file}")
    print(f"{walk.total} calls in {len(walk.files)} files")
    if "--calls" in sys.argv:
        for (file, name), calls in walk.calls.most_common():
            print(f"{calls:>4}  {file}:{name}")


if __name__ == "__main__":
    main()
