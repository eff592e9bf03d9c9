"""`betimes doctor`: find rows that cannot be read or do not match their history, and repair them."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from betimes.cli.bootstrap import Application
from betimes.cli.options import AT, At, on
from betimes.cli.output import progress, say, show
from betimes.core.errors import STATUS
from betimes.engine.repair import Ailment, examine, mend
from betimes.engine.replay import VerifyReport, verify


def doctor(*, repair: Annotated[bool, Parameter(negative=())] = False, at: At = AT) -> int:
    """List every row that cannot be read or does not fit its history, and what a repair would do.

    Nothing is changed without --repair. A repair is a segment of its own in the stream's history, so that everybody can
    see it and verify still holds; what cannot be read stays where it is. Exits with 65 if anything is left.

    Parameters
    ----------
    repair
        Repair what can be repaired and set aside the rest.
    """
    with progress("examining", json=at.json):
        ailments, report, clock = on(at.target, lambda application: _examine(application, repair=repair))
    mended = [one for one in ailments if repair and one.remedy]
    named = {one.stream for one in ailments}
    others = [str(found) for found in report.findings if found.stream is None or found.stream not in named]
    # Verified after the repair, which has mended what it could.
    left = len(report.findings) if repair else len(ailments) + len(others)
    view: dict[str, Any] = {"streams": report.streams, "wrong": len(ailments) + len(others), "mended": len(mended)}
    view |= {"left": left}
    if at.json:
        rows = [{"stream": str(one.stream), "what": one.what, "repair": one.remedy} for one in ailments]
        show({**view, "rows": rows, "others": others, "clock": clock}, json=True)
    else:
        show(view, json=False)
        _say_findings(ailments, mended, clock, others)
    return STATUS["MALFORMED_ROW"][1] if left else 0


async def _examine(application: Application, *, repair: bool) -> tuple[list[Ailment], VerifyReport, list[str]]:
    engine = application.engine
    found = mend(engine.store, engine.kinds) if repair else examine(engine.store, engine.kinds)
    ailments = [ailment async for ailment in found]
    report = await verify(engine.store, engine.kinds, key_retention_s=engine.settings.key_retention_s)
    return ailments, report, (await engine.clock_report())[1]


def _say_findings(ailments: list[Ailment], mended: list[Ailment], clock: list[str], others: list[str]) -> None:
    for one in ailments:
        done = one.remedy or "it cannot be repaired here: restore it from a backup, or upgrade this process"
        say(f"{one.stream}: {one.what}. {'Done' if one in mended else 'Repair'}: {done}.")
    for told in clock:
        say(f"The clock: {told}.")
    for other in others:
        say(f"{other}. A repair does not fix this: restore it from a backup.")
