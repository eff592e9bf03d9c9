"""`betimes backtest`: report what other policies would have changed, as tables, JSON or one HTML page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from betimes.catalogue import AREAS
from betimes.cli.bootstrap import Application
from betimes.cli.documents import policy_document
from betimes.cli.options import AT, At, on
from betimes.cli.output import say, shares, show_json
from betimes.core.checks import check_value
from betimes.core.errors import Invalid, NotFound
from betimes.core.policies import Body
from betimes.core.streams import checked_stream
from betimes.engine.store import LedgerQuery

if TYPE_CHECKING:  # what a command does not use need not be loaded
    from betimes.backtest.plan import SubjectSample
    from betimes.backtest.report import BacktestReport

SAMPLES = 20


def _option(help: str, **more: Any) -> Parameter:
    return Parameter(help=help, **more)


Policies = Annotated[
    tuple[Path, ...],
    _option(
        "A policy to try, as TOML, YAML or JSON; '-' reads JSON from standard input. Repeat it for another.",
        allow_leading_hyphen=True,
        negative=(),
    ),
]
Sweeps = Annotated[
    tuple[str, ...],
    _option(
        "A setting and values to try, such as notifications.fatigue.hour.cap=6,8,10, on each policy, or on the one in "
        "force if none is named. Repeat it for another; every combination is tried.",
        negative=(),
    ),
]
Since = Annotated[
    str | None, _option("From this instant on; earlier traffic only builds up the state. Default: from the beginning.")
]
Until = Annotated[str | None, _option("Up to this instant. Default: to the end.")]
OnlyTenant = Annotated[str | None, _option("Only this tenant's traffic.")]
OverridesOf = Annotated[
    str | None,
    _option("The policies are the overrides of this tenant, instead of the deployment's policy; only it is rehearsed."),
]
OnlyDomain = Annotated[
    str | None, _option(f"Report only this domain: {', '.join(AREAS[:-1])} or {AREAS[-1]}. All are rehearsed.")
]
Page = Annotated[Path | None, _option("Write the answer into this file, as one page with charts.")]
Samples = Annotated[
    int | None,
    _option(
        "Changed answers of each kind that are shown with both traces. Default: 1 here, 20 in JSON and HTML.",
        negative=(),
    ),
]
Subjects = Annotated[
    str | None,
    _option("Only a sample: a number of users, accounts and the like, or a share such as 10%. Default: all."),
]
Seed = Annotated[int, _option("Chooses another sample of the same size.")]
Jobs = Annotated[int | None, _option("Processes to use. Default: as many as there are cores.")]


def backtest(
    *,
    policy: Policies = (),
    sweep: Sweeps = (),
    since: Since = None,
    until: Until = None,
    tenant: OnlyTenant = None,
    overrides_of: OverridesOf = None,
    domain: OnlyDomain = None,
    html: Page = None,
    samples: Samples = None,
    subjects: Subjects = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    at: At = AT,
) -> None:
    """Show what other policies would have changed in the recorded traffic; change nothing.

    The commands that came from outside are decided again under each policy, at their own instants. First it says how
    well the recorded policy is reproduced, then what each other one would have changed. A policy that cannot work is
    refused with its paths before anything runs. The same ledger and policies give the same answer, byte for byte.
    """
    _check_options(policy, html, tenant, overrides_of)
    asked: dict[str, Any] = {"sweep": sweep, "since": since, "until": until, "tenant": tenant, "domain": domain}
    asked |= {"overrides_of": overrides_of, "samples_max": SAMPLES if samples is None else samples}
    if subjects is not None:
        asked["sample"] = _sample_of(subjects, seed)
    policies = _load_policies(policy)
    with shares("rehearsing", json=at.json) as tell:
        report = on(
            at.local(over_http="POST /v1/backtests"),
            lambda application: _rehearse(application, policies, asked, jobs, tell),
        )
    _show(report, html, at, samples_max=1 if samples is None else samples)


def _sample_of(subjects: str, seed: int) -> SubjectSample:
    """Return the sample that `200` or `10%` stands for."""
    from betimes.backtest.plan import SubjectSample

    try:
        if subjects.endswith("%"):
            return check_value({"share": float(subjects[:-1]) / 100, "seed": seed}, SubjectSample)
        return check_value({"subjects": int(subjects), "seed": seed}, SubjectSample)
    except ValueError:
        message = f"{subjects!r} is neither a number of subjects nor a share such as 10%"
        raise Invalid(message, (("subjects", "200, or 10%"),)) from None


def _check_options(policy: tuple[Path, ...], html: Path | None, *tenants: str | None) -> None:
    if len(policy) != len({*policy}):
        raise Invalid("the same policy is named twice", (("policy", "each once"),))
    if html is not None:
        _check_writable(html)
    for named in filter(None, tenants):
        checked_stream(named, "tenant", named)


async def _rehearse(
    application: Application,
    policies: Mapping[str, Body],
    asked: dict[str, Any],
    jobs: int | None,
    tell: Callable[[float], None],
) -> BacktestReport:
    from betimes.backtest.plan_builder import build_plan

    plan = await build_plan(application.engine, policies, **asked)
    await _check_known(application, plan.tenant)
    return await application.backtest(plan, jobs=jobs, progress=tell)


def _show(report: BacktestReport, html: Path | None, at: At, *, samples_max: int) -> None:
    if html is not None:
        _write(html, report)
    if at.json:
        show_json(report)
    elif html is None:
        from betimes.backtest.tables import show_report

        show_report(report, samples_max=samples_max)
    else:
        from betimes.backtest.summary import candidate_name, control_sentence, flips_sentence

        say(control_sentence(report.control))
        for candidate in report.candidates:
            say(f"{candidate_name(candidate)}: {flips_sentence(candidate)}")
        say(f"The report is in {html}.")


def _load_policies(files: tuple[Path, ...]) -> dict[str, dict[str, Any]]:
    """Return policies by the names of their files, as short as they differ."""
    stems = [file.stem for file in files]
    names = [stem if stems.count(stem) == 1 else str(file) for file, stem in zip(files, stems, strict=True)]
    return {name: policy_document(file) for name, file in zip(names, files, strict=True)}


async def _check_known(application: Application, tenant: str | None) -> None:
    """Refuse a tenant that nothing is recorded of: it is misspelt, not safe from every policy."""
    if tenant and not await application.engine.store.ledger(LedgerQuery(tenant=tenant, limit=1)):
        raise NotFound(f"nothing is recorded of the tenant {tenant!r}")


def _check_writable(file: Path) -> None:
    """Refuse at once what cannot be written at the end: a backtest may take long."""
    if file.is_dir() or not file.parent.is_dir():
        raise Invalid(f"{file} cannot be written: it needs to be a file in a folder that exists")


def _write(file: Path, report: BacktestReport) -> None:
    from betimes.backtest.page import page

    try:
        file.write_text(page(report), encoding="utf-8", newline="\n")
    except OSError as error:
        raise Invalid(f"{file} cannot be written: {error.strerror or error}") from None
