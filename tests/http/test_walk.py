"""The way of one notification through the code is as short as the page on the architecture says."""

from __future__ import annotations

from pathlib import Path

from tests.http.walk import walk_of_one_notification

CALLS_MAX = 250
FILES_MAX = 44
WAY = ("http/server.py", "notifications/routes.py", "notifications/service.py", "engine/engine.py", "engine/batch.py")
"""In this order; what is decided comes after the batch, and the store's commit last."""


async def test_a_notification_goes_from_http_to_its_commit_on_a_short_way(tmp_path: Path) -> None:
    walk = await walk_of_one_notification(f"sqlite:///{tmp_path / 'walk.db'}")
    files = list(walk.files)
    print(f"{walk.total} calls in {len(files)} files:", *files, sep="\n  ")
    assert walk.total <= CALLS_MAX
    assert len(files) <= FILES_MAX
    assert [file for file in files if file in WAY] == list(WAY)
    assert (
        files.index("engine/batch.py") < files.index("notifications/rules.py") < files.index("stores/sqlite/commit.py")
    )
