"""The configuration of a process: one file (TOML or YAML), with the environment over it.

    db = "sqlite:///betimes.db"
    [server]
    port = 8080
    [policy.notifications]
    …

Everything is checked at once: `read` either gives a whole `Configuration` or raises `Invalid` with every problem and
its path, those of the policy too. Of the environment, `BETIMES_DB` and names with two underscores between their parts
(`BETIMES_SERVER__PORT`) are read, and a whole section as JSON (`BETIMES_POLICY`); others are somebody else's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec

from betimes.app.deployment import deployment_of, url_problems
from betimes.app.settings import DEVELOPMENT_CHANNELS, SettingFields, Settings
from betimes.catalogue import SECTIONS
from betimes.console.settings import ConsoleSettings
from betimes.core.checks import list_problems, problems
from betimes.core.errors import Invalid
from betimes.core.policies import PolicyBook, merge
from betimes.domain.derivation import derive
from betimes.domain.documents import parse_document, read_text
from betimes.domain.policy_check import demand_callable
from betimes.http.limits import ConnectionLimits
from betimes.intents.http_source import SourceSettings
from betimes.intents.sources import NAMES
from betimes.outbound.channels import AppriseChannel, ChannelSettings, LogChannel, WebhookChannel
from betimes.outbound.settings import WebhookSettings
from betimes.sensors.identity_tokens import IssuerSettings

DEFAULT_DB = "sqlite:///betimes.db"
FILES = ("betimes.toml", "betimes.yaml", "betimes.yml")
"""Looked for in the working folder, in this order."""
PREFIX = "BETIMES_"
LOOPBACK = ("127.0.0.0/8", "::1/128")
Problem: TypeAlias = tuple[str, str]


class NoChannel(msgspec.Struct, frozen=True, tag_field="kind", tag="none", forbid_unknown_fields=True):
    """This tenant has no such channel, whatever the deployment has."""


OwnChannel: TypeAlias = AppriseChannel | WebhookChannel | LogChannel | NoChannel


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the HTTP API listens."""

    host: str = "127.0.0.1"
    """Loopback by default; put a reverse proxy in front of anything else."""
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 8080
    """0 takes any free one and prints it."""
    limits: ConnectionLimits = ConnectionLimits()
    """Limits of connections and requests, checked before an API key is."""
    dev: bool = False
    """Serve without keys, on loopback only; the tenant is the header `X-Tenant`."""

    def __post_init__(self) -> None:
        if self.dev and not is_loopback(self.host):
            raise ValueError(f"dev needs no keys and therefore serves loopback only, not {self.host}")


class TenantSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one tenant in place of the deployment's."""

    channels: dict[str, OwnChannel] = {}
    """`kind = "none"` takes a channel away."""


class Configuration(SettingFields, frozen=True, kw_only=True):
    """The whole configuration of a process."""

    db: str = DEFAULT_DB
    """`sqlite:///betimes.db`, `postgresql://user@host/name` or `memory://`."""
    server: ServerSettings = ServerSettings()
    console: ConsoleSettings = ConsoleSettings()
    """The pages at `/console`."""
    channels: dict[str, AppriseChannel | WebhookChannel | LogChannel] | None = None
    """Channels that reach users, by name; without any, messages go into the log."""
    tenants: dict[str, TenantSettings] = msgspec.field(default_factory=dict)
    sources: dict[str, SourceSettings] = msgspec.field(default_factory=dict)
    """HTTP sources for conditions of intents: `price`, `portfolio`, `last_interaction`."""
    secrets: dict[str, str] = msgspec.field(default_factory=dict)
    """Values that other settings name; better kept in the environment (`BETIMES_SECRETS__NAME`) than in the file."""
    oidc: dict[str, IssuerSettings] = msgspec.field(default_factory=dict)
    """Issuers of identity tokens that pushed messages may bring, besides Google, each with where its keys are."""
    policy: dict[str, Any] | None = None
    """The deployment's policy; left out, what is in force stays."""

    @property
    def with_keys(self) -> Configuration:
        """The same, out of development."""
        return msgspec.structs.replace(self, server=msgspec.structs.replace(self.server, dev=False))

    @property
    def settings(self) -> Settings:
        """Return the settings for `Betimes`."""
        webhooks = loopback_allowed(self.webhooks) if self.server.dev else self.webhooks
        return derive(Settings, self, channels=self._channels, webhooks=webhooks, sources=self._sources)

    @property
    def _sources(self) -> dict[str, SourceSettings]:
        """With the values of the secrets that their headers name."""
        return {
            name: msgspec.structs.replace(
                source, headers={header: self.secrets[secret] for header, secret in source.headers.items()}
            )
            for name, source in self.sources.items()
        }

    @property
    def _channels(self) -> ChannelSettings:
        own = {
            tenant: {name: None if isinstance(said, NoChannel) else said for name, said in settings.channels.items()}
            for tenant, settings in self.tenants.items()
        }
        shared = DEVELOPMENT_CHANNELS.channels if self.channels is None else self.channels
        return ChannelSettings(channels=shared, tenants=own)


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def loopback_allowed(webhooks: WebhookSettings) -> WebhookSettings:
    """In development the receiver of a webhook is on the same machine, without TLS."""
    networks = (*webhooks.allow_networks, *LOOPBACK)
    return msgspec.structs.replace(webhooks, allow_http=True, allow_networks=networks)


# -- reading


def read(
    file: Path | None = None, environment: Mapping[str, str] | None = None, over: Mapping[str, Any] | None = None
) -> Configuration:
    """The file's settings, the environment's over them, and `over` (the command line's) over both."""
    variables = os.environ if environment is None else environment
    found = place_of(file, variables)
    body, wrong = environment_body(variables)
    merged = merge(merge(file_body(found) if found else {}, body), over or {})
    return parse_configuration(merged, wrong)


def place_of(file: Path | None, variables: Mapping[str, str]) -> Path | None:
    """The file that is meant: the one named, or the first of the usual names that is there."""
    named = file or (Path(variables["BETIMES_CONFIG"]) if variables.get("BETIMES_CONFIG") else None)
    if named is not None:
        return named
    return next((path for name in FILES if (path := Path(name)).is_file()), None)


def file_body(path: Path) -> dict[str, Any]:
    """Return the content of a file, as mappings and plain values."""
    return parse_document(path, read_text(path), "TOML", may_be_empty=True)


def environment_body(variables: Mapping[str, str]) -> tuple[dict[str, Any], list[Problem]]:
    """The settings in the environment, and what is wrong with their names."""
    sections = set(Configuration.__struct_fields__)
    body: dict[str, Any] = {}
    wrong: list[Problem] = []
    for name, text in sorted(variables.items()):
        if not name.startswith(PREFIX):
            continue
        parts = name.removeprefix(PREFIX).lower().split("__")
        if parts[0] in sections:
            nested: Any = text if parts[0] == "secrets" and len(parts) > 1 else value_of(text)
            for part in reversed(parts):
                nested = {part: nested}
            body = merge(body, nested)
        elif len(parts) > 1:
            wrong.append((name, f"no such setting; known: {', '.join(sorted(sections))}"))
    return body, wrong


def value_of(text: str) -> Any:
    """Return the value of JSON (numbers, true, lists, mappings), otherwise the text itself."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def parse_configuration(body: Mapping[str, Any], wrong: list[Problem] | None = None) -> Configuration:
    """Return the body as a configuration; raise `Invalid` with everything that is wrong with it."""
    found = [*(wrong or ()), *_setting_problems(body), *_policy_problems(body.get("policy")), *_source_problems(body)]
    if found:
        raise Invalid(f"the configuration is refused: {list_problems(found)}", tuple(found))
    configuration = msgspec.convert(body, Configuration)
    if found := list(url_problems(configuration.settings.channels, configuration.enrichment)):
        raise Invalid(f"the configuration is refused: {list_problems(found)}", tuple(found))
    return configuration


def _setting_problems(body: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the settings; for a policy section at the top level, say where it belongs."""
    misplaced = (SECTIONS.keys() & body.keys()) - set(Configuration.__struct_fields__)
    return [
        (path, f"is a section of the policy; write it as [policy.{path}]") if path in misplaced else (path, message)
        for path, message in problems("", body, Configuration)
    ]


def _source_problems(body: Mapping[str, Any]) -> list[Problem]:
    """Return sources that no trigger asks for, and secrets that are not there."""
    sources, secrets = body.get("sources"), body.get("secrets") or {}
    if not isinstance(sources, Mapping) or not isinstance(secrets, Mapping):
        return []
    found = [(f"sources.{name}", f"no such source; known: {', '.join(NAMES)}") for name in sources.keys() - {*NAMES}]
    for name, source in sources.items():
        headers = source.get("headers") if isinstance(source, Mapping) else None
        for header, secret in headers.items() if isinstance(headers, Mapping) else ():
            if isinstance(secret, str) and secret not in secrets:
                told = f"no secret {secret!r:.80}; set BETIMES_SECRETS__{secret.upper():.80}, or it in [secrets]"
                found.append((f"sources.{name}.headers.{header}", told))
    return sorted(found)


def _policy_problems(policy: Any) -> list[Problem]:
    if not isinstance(policy, Mapping):
        return []
    try:
        demand_callable(deployment_of(WebhookSettings()), PolicyBook(SECTIONS).effective(policy))
    except Invalid as error:
        return [(f"policy.{path}", message) for path, message in error.problems]
    return []
