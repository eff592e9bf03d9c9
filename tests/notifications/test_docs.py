"""The documentation's table of rules is the code's."""

from __future__ import annotations

from pathlib import Path

from betimes.core.verdicts import readable_template
from betimes.notifications.rules import RULES, STAGES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "notifications.md"


def rules_table() -> str:
    lines = ["| # | rule | answers | its sentence |", "|---|---|---|---|"]
    for rule in RULES.rules:
        stage, answers = STAGES[rule.name]
        lines.append(f"| {stage} | `{rule.name}` | {answers} | {readable_template(rule.says)} |")
    lines.append(f"| P8 | otherwise | {RULES.otherwise.answer} {RULES.otherwise.reason} | |")
    return "\n".join(lines)


def test_the_table_of_rules_is_the_codes() -> None:
    between = DOCS.read_text().split("<!-- rules -->\n")[1].split("\n<!-- /rules -->")[0]
    assert between == rules_table(), f"docs/notifications.md should have\n{rules_table()}"
