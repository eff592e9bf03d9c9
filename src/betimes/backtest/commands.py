"""`betimes backtest`: what other policies would have changed, as tables, JSON or one page of HTML."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from betimes.cli.bootstrap import Application
from betimes.cli.documents import document
from betimes.cli.options import At, on
from betimes.cli.output import say, shares, show_json
from betimes.core.errors import Invalid, NotFound
from betimes.core.streams import checked_stream
from betimes.engine.store import LedgerQuery

if TYPE_CHECKING:  # what a command does not use need not be loaded
    from betimes.backtest.report import BacktestReport

SAMPLES = 20


def backtest(
    *,
    policy: Annotated[tuple[Path, ...], Parameter(allow_leading_hyphen=True, negative=())] = (),
    sweep: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    since: str | None = None,
    until: str | None = None,
    tenant: str | None = None,
    overrides_of: str | None = None,
    domain: str | None = None,
    html: Path | None = None,
    samples: Annotated[int | None, Parameter(negative=())] = None,
    jobs: int | None = None,
    at: At = At(),  # noqa: B008 — frozen
) -> None:
    """Say what other policies would have changed in the recorded traffic; nothing is changed.

    The commands that came from outside are decided again under each policy, at their own instants. First it says how
    well the recorded policy is reproduced, then what each other one would have changed. A policy that cannot work is
    refused with its paths before anything runs. The same ledger and policies give the same answer, byte for byte.

    Parameters
    ----------
    policy
        A policy to try, as TOML, YAML or JSON; '-' reads JSON from standard input. Say it again for another.
    sweep
        A setting and values to try, such as notifications.fatigue.hour.cap=6,8,10, on each policy, or on the one in
        force if none is named. Say it again for another; every combination is tried.
    since
        From this instant on; what came before is only taken in. Default: from the beginning.
    until
        Up to this instant. Default: to the end.
    tenant
        Only this tenant's traffic.
    overrides_of
        The policies are the overrides of this tenant, instead of the deployment's policy; only it is rehearsed.
    domain
        Report only this domain: runs, notifications, intents, automation or scores. All are rehearsed.
    html
        Write the answer into this file, as one page with charts.
    samples
        Changed answers of each kind that are shown with both traces. Default: 1 here, 20 in JSON and HTML.
    jobs
        Processes to use. Default: as many as there are cores.
    """
    if len(policy) != len({*policy}):
        raise Invalid("the same policy is named twice", (("policy", "each once"),))
    if html is not None:
        _check_writable(html)
    for named in filter(None, (tenant, overrides_of)):
        checked_stream(named, "tenant", named)
    policies = _named(policy)

    async def work(application: Application, told: Any) -> BacktestReport:
        from betimes.backtest.plan_builder import asked

        plan = await asked(
            application.engine,
            policies,
            sweep=sweep,
            overrides_of=overrides_of,
            since=since,
            until=until,
            tenant=tenant,
            domain=domain,
            samples_max=SAMPLES if samples is None else samples,
        )
        await _check_known(application, plan.tenant)
        return await application.backtest(plan, jobs=jobs, progress=told)

    with shares("rehearsing", json=at.json) as told:
        report = on(at.target, lambda application: work(application, told), exists=True)
    if html is not None:
        _write(html, report)
    if at.json:
        show_json(report)
    elif html is None:
        from betimes.backtest.tables import show_report

        show_report(report, samples_max=1 if samples is None else samples)
    else:
        from betimes.backtest.summary import control_sentence

        say(control_sentence(report.control))
        say(f"The report is in {html}.")


def _named(files: tuple[Path, ...]) -> dict[str, dict[str, Any]]:
    """Policies by the names of their files, as short as they differ."""
    stems = [file.stem for file in files]
    names = [stem if stems.count(stem) == 1 else str(file) for file, stem in zip(files, stems, strict=True)]
    return {name: _body(file) for name, file in zip(names, files, strict=True)}


def _body(file: Path) -> dict[str, Any]:
    """A policy, or a configuration with one in it."""
    body = document(file)
    inner = body.get("policy")
    return inner if isinstance(inner, dict) else body


async def _check_known(application: Application, tenant: str | None) -> None:
    """A tenant nobody has heard of is misspelt, not safe from every policy."""
    if tenant and not await application.engine.store.ledger(LedgerQuery(tenant=tenant, limit=1)):
        raise NotFound(f"nothing is recorded of the tenant {tenant!r}")


def _check_writable(file: Path) -> None:
    """A backtest may take long; what cannot be written at its end is refused at once."""
    if file.is_dir() or not file.parent.is_dir():
        raise Invalid(f"{file} cannot be written: it needs to be a file in a folder that exists")


def _write(file: Path, report: BacktestReport) -> None:
    from betimes.backtest.page import page

    try:
        file.write_text(page(report), encoding="utf-8", newline="\n")
    except OSError as error:
        raise Invalid(f"{file} cannot be written: {error.strerror or error}") from None
