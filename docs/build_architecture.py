"""Write the picture of the imports into docs/architecture.md, between its markers, from the code.

python docs/build_architecture.py
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the parts are those that the tests hold the code to

from tests.architecture import DOMAINS, imported_modules, part_of, part_of_module, python_files  # noqa: E402

PAGE = ROOT / "docs" / "architecture.md"
PACKAGE = ROOT / "src" / "betimes"
START, END = "<!-- imports -->\n", "<!-- /imports -->\n"
LEFT_OUT = {"core", "testing", "app", "betimes", "__main__"}
"""Everything imports core, and the wiring imports everything: neither says anything."""


def node_of(part: str) -> str:
    """Return the node a part is drawn as; the six domains are one."""
    return "services" if part in DOMAINS else part


def edges() -> dict[tuple[str, str], int]:
    """Return how many files of one part import another."""
    found: dict[tuple[str, str], int] = {}
    for path in python_files(PACKAGE):
        source = node_of(part_of(path, PACKAGE))
        targets = {node_of(part_of_module(module)) for _, module in imported_modules(path, PACKAGE)}
        for target in targets - {source} - LEFT_OUT:
            if source not in LEFT_OUT:
                found[source, target] = found.get((source, target), 0) + 1
    return found


def picture() -> str:
    """Return the imports between parts as a Mermaid graph and as a table."""
    counted = edges()
    lines = ["```mermaid", "graph LR", *(f"  {source} --> {target}" for source, target in sorted(counted)), "```"]
    lines += ["", "| part | imports (files that do) |", "|---|---|"]
    for part in sorted({source for source, _ in counted}):
        targets = sorted(((count, target) for (source, target), count in counted.items() if source == part))[::-1]
        lines.append(f"| `{part}` | {', '.join(f'{target} ({count})' for count, target in targets)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """Return the page with the picture as the code has it."""
    before, _, rest = PAGE.read_text().partition(START)
    return f"{before}{START}{picture()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page())
