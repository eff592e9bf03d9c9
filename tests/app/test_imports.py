"""What `module:name` names is found, or it is said what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.app.imports import import_object
from betimes.core.errors import Invalid, NotFound


@pytest.mark.parametrize("place", ["nosuch_shop:bt", "nosuch_shop.scores:score", "json.nosuch.scores:score"])
def test_a_module_or_package_that_is_not_there_is_not_found(place: str) -> None:
    with pytest.raises(NotFound, match="there is no module"):
        import_object(place, "an application", "shop:bt")


def test_a_module_that_imports_what_is_not_there_fails_by_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_shop.py").write_text("import nosuch_driver")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="nosuch_driver"):
        import_object("half_shop:bt", "an application", "shop:bt")


@pytest.mark.parametrize(("place", "meant"), [("shop.py:bt", "shop:bt"), ("./web/shop.py:bt", "web.shop:bt")])
def test_a_file_is_answered_with_its_module(place: str, meant: str) -> None:
    with pytest.raises(Invalid, match=f"write its module: {meant}$"):
        import_object(place, "an application", "shop:bt")
