"""The reference page says what the code says."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_the_reference_page_is_up_to_date() -> None:
    built = runpy.run_path(str(DOCS / "build_reference.py"))["reference"]()
    assert (DOCS / "reference.md").read_text() == built, "run `make reference`"


def test_every_page_is_linked_from_the_index() -> None:
    index = (DOCS / "index.md").read_text()
    for page in DOCS.glob("*.md"):
        assert page.name == "index.md" or f"({page.name})" in index, f"{page.name} is not in the index"


def test_every_link_leads_somewhere() -> None:
    for page in (*DOCS.glob("*.md"), DOCS.parent / "README.md"):
        for target in (part.split(")")[0] for part in page.read_text().split("](")[1:]):
            place = page.parent / target.partition("#")[0]
            assert target.startswith("https://") or place.exists(), f"{page.name}: {target}"


def test_reports_that_are_put_together_are_spelt_out() -> None:
    words = runpy.run_path(str(DOCS / "build_reference.py"))["report_words"]()
    assert {"call_dead", "call_failed", "call_abandoned"} <= words
    assert all(word.replace("_", "").isalpha() for word in words)


def test_the_types_of_the_blocking_application_are_up_to_date() -> None:
    built = runpy.run_path(str(DOCS / "build_blocking.py"))
    assert built["STUB"].read_text() == built["written"](), "run `make reference`"


def test_the_picture_of_the_imports_is_up_to_date() -> None:
    built = runpy.run_path(str(DOCS / "build_architecture.py"))
    assert built["PAGE"].read_text() == built["page"](), "run `make reference`"
