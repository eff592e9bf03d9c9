"""The source tree keeps its rules, and each rule is shown to catch what it forbids."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import architecture

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "betimes"
FOLDERS = [folder for name in ("src", "tests", "benchmarks", "examples") if (folder := ROOT / name).exists()]

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write one file of a sample package and return the package's folder."""

    def write_sample(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return tmp_path

    return write_sample


def test_the_package_is_where_the_checks_look() -> None:
    assert PACKAGE / "__init__.py" in architecture.python_files(PACKAGE)


def test_no_import_goes_against_the_arrows() -> None:
    assert architecture.imports_against_the_arrows(PACKAGE) == []


def test_nothing_ambient_is_read_in_pure_files_and_the_engine() -> None:
    assert architecture.ambient_reads(PACKAGE) == []


def test_every_import_is_a_statement(write: Write) -> None:
    assert architecture.hidden_imports(PACKAGE) == []
    assert architecture.hidden_imports(write("stores/sample.py", "__import__('os').environ")) != []


def test_time_zones_are_looked_up_in_the_pinned_data_only() -> None:
    assert architecture.zone_data_outside_the_door(PACKAGE) == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_file_is_too_long_to_read(folder: Path) -> None:
    assert architecture.overlong_files(folder) == []


def test_every_module_opens_with_a_docstring() -> None:
    assert architecture.modules_without_docstring(PACKAGE) == []


def test_nothing_is_left_unfinished() -> None:
    assert architecture.unfinished_work(PACKAGE) == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_module_is_named_for_what_it_holds(folder: Path) -> None:
    assert architecture.vague_module_names(folder) == []


@pytest.mark.parametrize(
    ("name", "text", "target"),
    [
        ("core/instants.py", "from betimes.engine.store import Store", "engine"),
        ("core/instants.py", "import betimes.runs.model", "pure"),
        ("core/instants.py", "from betimes import runs", "runs"),
        ("core/instants.py", "from betimes import Betimes", "betimes"),
        ("core/instants.py", "import betimes", "betimes"),
        ("core/instants.py", "def late():\n    from betimes import app", "app"),
        ("engine/loop.py", "from betimes.stores.memory import MemoryStore", "stores"),
        ("engine/loop.py", "from betimes.runs.model import RunState", "pure"),
        ("runs/decide.py", "from ..engine import store", "engine"),
        ("runs/decide.py", "from .. import engine", "engine"),
        ("runs/rules.py", "from betimes.runs.service import Runs", "runs"),
        ("runs/rules.py", "if TYPE_CHECKING:\n    from betimes.stores import memory", "stores"),
        ("runs/quotas.py", "from betimes.domain.service import Service", "domain"),
        ("runs/service.py", "from betimes.http.routes import Route", "http"),
        ("runs/routes.py", "from betimes.cli.options import At", "cli"),
        ("runs/service.py", "from betimes.intents.service import Intents", "intents"),
        ("stores/memory.py", "from betimes.outbound import webhooks", "outbound"),
        ("http/server.py", "from betimes.runs.routes import ROUTES", "runs"),
        ("http/server.py", "from betimes.app import Betimes", "app"),
        ("cli/options.py", "from betimes.testing import clock", "testing"),
        ("testing/clock.py", "from betimes.http import routes", "http"),
        ("testing/clock.py", "from betimes.app import Betimes", "app"),
    ],
)
def test_an_import_against_the_arrows_is_caught(write: Write, name: str, text: str, target: str) -> None:
    [offence] = architecture.imports_against_the_arrows(write(name, text))
    assert offence.endswith(f"must not import {target}")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("core/instants.py", "import msgspec\nfrom . import reasons\nfrom betimes.core import reasons"),
        ("runs/decide.py", "from .model import Run\nfrom betimes.core import reasons"),
        ("runs/rules.py", "from betimes.schedules.nominal_time import NominalTime"),
        ("runs/service.py", "from betimes.runs.rules import GATE\nfrom betimes.domain.service import Service"),
        ("runs/routes.py", "from betimes.http.routes import Route\nfrom betimes.runs.views import RunView"),
        ("runs/commands.py", "from betimes.cli.options import At"),
        ("engine/loop.py", "from betimes import core\nfrom .store import Store"),
        ("stores/sqlite/store.py", "from betimes.engine.store import Store\nfrom ..rows import Row"),
        ("testing/conformance.py", "from betimes.stores import memory"),
        ("app.py", "from betimes.runs import routes\nfrom betimes.stores import memory"),
        ("__init__.py", "from betimes.app import Betimes"),
    ],
)
def test_an_import_along_the_arrows_is_allowed(write: Write, name: str, text: str) -> None:
    assert architecture.imports_against_the_arrows(write(name, text)) == []


def test_every_domain_has_the_shape_of_the_others(write: Write) -> None:
    assert architecture.missing_files(PACKAGE) == []
    [*missing] = architecture.missing_files(write("runs/model.py", ""))
    assert not any(offence.endswith("runs: has no model.py") for offence in missing)
    assert any(offence.endswith("runs: has no decide.py") for offence in missing)


def test_a_part_outside_the_architecture_is_caught(write: Write) -> None:
    [offence] = architecture.imports_against_the_arrows(write("plugins/one.py", ""))
    assert "'plugins'" in offence


@pytest.mark.parametrize(
    "text",
    [
        "import random",
        "import uuid as identifiers",
        "from uuid import uuid4",
        "import secrets",
        "import time\ntime.time()",
        "import time as t\nt.monotonic_ns()",
        "from time import monotonic",
        "from datetime import datetime\ndatetime.now()",
        "import datetime as dt\ndt.datetime.utcnow()",
        "from datetime import date\ndef f():\n    return date.today()",
        "import os\nos.environ['HOME']",
        "from os import getenv",
        "from whenever import Instant\nInstant.now()",
        "import whenever\nwhenever.ZonedDateTime.now('UTC')",
    ],
)
@pytest.mark.parametrize("part", ["core", "runs", "engine"])
def test_an_ambient_read_is_caught(write: Write, part: str, text: str) -> None:
    assert architecture.ambient_reads(write(f"{part}/sample.py", text)) != []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("core/instants.py", "from whenever import Instant\nInstant.from_timestamp(0)"),
        ("core/instants.py", "from datetime import datetime\ndatetime.fromtimestamp(0)"),
        ("core/instants.py", "def due(random, now):\n    return random.time() < now.time()"),
        ("stores/memory.py", "import time\ntime.time()"),
    ],
)
def test_time_as_an_argument_and_clocks_at_the_edge_are_allowed(write: Write, name: str, text: str) -> None:
    assert architecture.ambient_reads(write(name, text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "from zoneinfo import ZoneInfo",
        "import zoneinfo as z\nz.ZoneInfo('UTC')",
        "import tzdata",
        "from importlib.resources import files\nfiles('tzdata')",
        "from whenever import ZonedDateTime",
        "import whenever\nwhenever.reset_tzpath(['/tmp'])",
        "from whenever import Instant\ndef f(at: Instant):\n    return at.to_tz('Europe/Berlin')",
        "def f(local):\n    return local.assume_tz('UTC')",
        "def f(local):\n    return local.assume_system_tz()",
        "def f(at):\n    return at.astimezone()",
        "from datetime import datetime\ndatetime.fromtimestamp(0)",
        "from time import localtime",
        "from dateutil import tz",
    ],
)
def test_a_look_up_of_the_machines_time_zones_is_caught(write: Write, text: str) -> None:
    assert architecture.zone_data_outside_the_door(write("app/sample.py", text)) != []
    assert architecture.zone_data_outside_the_door(write("app/sample.py", "")) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("core/zones.py", "from zoneinfo import ZoneInfo\nimport tzdata"),
        ("app/sample.py", "from betimes.core.zones import zone\ndef f(at):\n    return at.astimezone(zone('UTC'))"),
        ("app/sample.py", "from datetime import UTC, datetime\ndatetime.fromtimestamp(0, UTC)"),
        ("app/sample.py", "from datetime import UTC, datetime\ndatetime.fromtimestamp(0, tz=UTC)"),
        ("app/sample.py", "from whenever import Instant, PlainDateTime\nPlainDateTime.parse_iso('')"),
    ],
)
def test_the_door_to_time_zones_may_be_used(write: Write, name: str, text: str) -> None:
    assert architecture.zone_data_outside_the_door(write(name, text)) == []


@pytest.mark.parametrize("name", ["core/long.py", "stores/long.sql"])
def test_an_overlong_file_is_caught(write: Write, name: str) -> None:
    longest = "-- a line\n" * architecture.LINES_MAX
    assert architecture.overlong_files(write(name, longest)) == []
    assert len(architecture.overlong_files(write(name, longest + "-- one more\n"))) == 1


@pytest.mark.parametrize("text", ["", "import os\n", "# a comment\n", "x = 1\n'''too late'''\n"])
def test_a_module_without_docstring_is_caught(write: Write, text: str) -> None:
    assert len(architecture.modules_without_docstring(write("core/bare.py", text))) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("core/open.py", "x = 1  # TODO later"),
        ("core/open.py", "# FIXME"),
        ("stores/open.sql", "-- XXX"),
        ("core/open.py", "raise NotImplementedError"),
    ],
)
def test_unfinished_work_is_caught(write: Write, name: str, text: str) -> None:
    assert len(architecture.unfinished_work(write(name, text))) == 1


@pytest.mark.parametrize("name", ["core/utils.py", "helpers/dates.py", "engine/manager.py", "misc/one.py"])
def test_a_vague_module_name_is_caught(write: Write, name: str) -> None:
    assert len(architecture.vague_module_names(write(name, ""))) == 1


PLANTED = {
    "domain.py": '''
"""The declaration of echoes: a domain as small as one can be."""

import msgspec

from betimes.core.deciders import Decider, Decision
from betimes.domain.declaration import Domain


class EchoesPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    loudness: int = 1


class Echo(msgspec.Struct, frozen=True, tag=True):
    words: str


class Echoed(msgspec.Struct, frozen=True, tag=True):
    words: str


class EchoState(msgspec.Struct, frozen=True):
    words: str


ECHO = Decider(
    kind="echo",
    state=EchoState,
    commands=Echo,
    events=Echoed,
    decide=lambda view, command, policy, now: Decision((Echoed(command.words),)),
    fold=lambda state, event: EchoState(event.words),
)
DOMAIN = Domain(
    package="betimes.echoes",
    area="echoes",
    deciders=(ECHO,),
    policy=EchoesPolicy,
    commands={"echo": "Echoes."},
)
''',
    "routes.py": '''
"""The routes of echoes."""

from betimes.http.routes import RequestContext, Route


async def echo(request: RequestContext) -> str:
    return request.path["words"]


ROUTES = (
    Route(method="GET", path="/v1/echoes/{words}", scope="echoes:read", answer=echo, summary="An echo", tag="Echoes"),
)
''',
    "commands.py": '''
"""The commands of echoes."""

from cyclopts import App

echo = App(name="echo", help="Echoes.")


@echo.command
def say(words: str, /) -> str:
    return words
''',
}
PLANTED_LINE = "from betimes.echoes.domain import DOMAIN as ECHOES"
COLLECTED = """
import json
from betimes.app.routes import ROUTES
from betimes.catalogue import DECIDERS, SCOPES, SECTIONS, area_of
from betimes.cli.main import application
print(json.dumps({
    "decider": "echo" in {decider.kind for decider in DECIDERS},
    "area": area_of("echo"),
    "section": SECTIONS["echoes"].__name__,
    "scopes": [scope for scope in SCOPES if scope.startswith("echoes")],
    "routes": [route.path for route in ROUTES if "echoes" in route.path],
    "command": application()(["echo", "say", "hello"]),
}))
"""


def test_a_domain_is_one_folder_and_one_line_in_the_catalogue(tmp_path: Path) -> None:
    package = tmp_path / "betimes"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in PLANTED.items():
        path = package / "echoes" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.lstrip())
    catalogue = package / "catalogue.py"
    before = catalogue.read_text()
    after = before.replace("\n\nDOMAINS: tuple[Domain, ...] = (", "\n\nDOMAINS: tuple[Domain, ...] = (ECHOES, ")
    assert after != before
    catalogue.write_text(after.replace("from betimes.http.policy", f"{PLANTED_LINE}\nfrom betimes.http.policy"))
    done = subprocess.run(
        [sys.executable, "-c", COLLECTED],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "decider": True,
        "area": "echoes",
        "section": "EchoesPolicy",
        "scopes": ["echoes:read", "echoes:write"],
        "routes": ["/v1/echoes/{words}"],
        "command": "hello",
    }
