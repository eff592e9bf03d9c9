"""Configuration: a file, the environment over it, and everything that is wrong with either, at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.app.configuration import DEFAULT_DB, Configuration, file_body, parse_configuration, read
from betimes.cli.documents import policy_document
from betimes.core.errors import Invalid, NotFound
from betimes.outbound.channels import LogChannel, WebhookChannel

TOML = """
db = "sqlite:///shop.db"

[server]
port = 9000

[channels.push]
kind = "log"

[tenants.acme.channels.push]
kind = "webhook"
url = "https://push.example/send"

[tenants.quiet.channels.push]
kind = "none"

[webhooks]
timeout_s = 3

[engine]
poll_s = 0.2

[policy.notifications]
jitter_s = 0
"""

YAML = """
db: sqlite:///shop.db
server: {port: 9000}
policy:
  notifications: {jitter_s: 0}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problems_of(**where: object) -> dict[str, str]:
    with pytest.raises(Invalid) as refused:
        read(**where)  # type: ignore[arg-type]
    return dict(refused.value.problems)


def test_without_a_file_everything_has_its_default(folder: Path) -> None:
    found = read(environment={})
    assert found == Configuration()
    assert (found.db, found.server.host, found.server.port, found.server.dev) == (DEFAULT_DB, "127.0.0.1", 8080, False)


def test_a_toml_file_says_it_all(folder: Path) -> None:
    (folder / "betimes.toml").write_text(TOML)
    found = read(environment={})
    assert (found.db, found.server.port, found.webhooks.timeout_s) == ("sqlite:///shop.db", 9000, 3)
    assert found.engine.poll_s == 0.2
    assert found.policy == {"notifications": {"jitter_s": 0}}
    channels = found.settings.channels
    assert isinstance(channels.of("other", "push"), LogChannel)
    assert isinstance(channels.of("acme", "push"), WebhookChannel)
    assert channels.of("quiet", "push") is None


def test_a_yaml_file_says_the_same(folder: Path) -> None:
    (folder / "betimes.yaml").write_text(YAML)
    found = read(environment={})
    assert (found.db, found.server.port, found.policy) == (
        "sqlite:///shop.db",
        9000,
        {"notifications": {"jitter_s": 0}},
    )


def test_the_environment_is_over_the_file_and_the_command_line_over_both(folder: Path) -> None:
    (folder / "betimes.toml").write_text(TOML)
    variables = {"BETIMES_SERVER__PORT": "9100", "BETIMES_DB": "memory://", "BETIMES_SERVER__HOST": "::1"}
    found = read(environment=variables, over={"server": {"port": 9200}})
    assert (found.db, found.server.port, found.server.host) == ("memory://", 9200, "::1")
    assert found.engine.poll_s == 0.2


def test_a_whole_section_may_be_json_in_the_environment(folder: Path) -> None:
    found = read(environment={"BETIMES_POLICY": '{"scores": {"start": 40}}'})
    assert found.policy == {"scores": {"start": 40}}


def test_the_environment_may_name_the_file(folder: Path) -> None:
    (folder / "elsewhere.toml").write_text("db = 'memory://'")
    assert read(environment={"BETIMES_CONFIG": "elsewhere.toml"}).db == "memory://"


def test_what_an_orchestrator_puts_into_the_environment_is_left_alone(folder: Path) -> None:
    variables = {"BETIMES_PORT": "tcp://10.0.0.1:80", "BETIMES_SERVICE_HOST": "10.0.0.1", "BETIMES_PORT_80_TCP": "x"}
    assert read(environment=variables) == Configuration()


def test_every_problem_is_named_by_its_path_at_once(folder: Path) -> None:
    (folder / "betimes.toml").write_text(
        """
        db = 7
        colour = "red"
        [server]
        port = 99999
        hots = "x"
        [channels.push]
        kind = "pigeon"
        [engine]
        batch_max = 0
        [policy.notifications]
        jitter_s = -1
        [policy.runs]
        nope = 1
        [policy.weather]
        """
    )
    found = problems_of(environment={"BETIMES_SERVR__PORT": "1"})
    assert set(found) == {
        "db",
        "colour",
        "server.port",
        "server.hots",
        "channels.push.kind",
        "engine",
        "policy.notifications.jitter_s",
        "policy.runs.nope",
        "policy.weather",
        "BETIMES_SERVR__PORT",
    }
    assert "batch_max" in found["engine"]


@pytest.mark.parametrize("text", ["", "# nothing yet\n"])
def test_an_empty_yaml_file_is_a_configuration_and_no_policy(folder: Path, text: str) -> None:
    file = folder / "empty.yaml"
    file.write_text(text)
    assert file_body(file) == {}
    with pytest.raises(Invalid, match="must hold a mapping"):
        policy_document(file)


def test_a_file_that_is_not_toml_or_yaml_is_refused_with_its_name(folder: Path) -> None:
    (folder / "broken.toml").write_text("db = ")
    (folder / "broken.yaml").write_text("db: [")
    (folder / "list.yaml").write_text("- 1")
    for name in ("broken.toml", "broken.yaml", "list.yaml"):
        with pytest.raises(Invalid, match=name):
            read(Path(name), {})


def test_a_file_that_is_named_must_be_there(folder: Path) -> None:
    with pytest.raises(NotFound, match=r"missing\.toml"):
        read(Path("missing.toml"), {})


def test_a_section_of_the_policy_at_the_top_is_told_where_it_belongs() -> None:
    with pytest.raises(Invalid) as refused:
        parse_configuration({"runs": {"action_cap": 20}, "colour": 1})
    told = dict(refused.value.problems)
    assert "[policy.runs]" in told["runs"]
    assert "[policy" not in told["colour"]


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "example.com", "::"])
def test_dev_is_refused_elsewhere_than_on_loopback(host: str) -> None:
    with pytest.raises(Invalid, match="loopback only"):
        parse_configuration({"server": {"dev": True, "host": host}})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.5", "localhost", "::1"])
def test_dev_serves_loopback_and_may_call_its_webhooks(host: str) -> None:
    found = parse_configuration({"server": {"dev": True, "host": host}, "webhooks": {"allow_networks": ["10.0.0.0/8"]}})
    webhooks = found.settings.webhooks
    assert webhooks.allow_http
    assert set(webhooks.allow_networks) == {"10.0.0.0/8", "127.0.0.0/8", "::1/128"}


def test_without_dev_webhooks_stay_as_they_are_configured() -> None:
    assert parse_configuration({}).settings.webhooks == parse_configuration({}).webhooks
