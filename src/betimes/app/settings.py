"""Settings of a process: everything that is configuration and not policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from betimes.app.deployment import EncryptionSettings, HandlerSettings
from betimes.engine.settings import EngineSettings
from betimes.intents.http_source import SourceSettings
from betimes.intents.worker import IntentSettings
from betimes.notifications.enrichment import EnrichmentSettings
from betimes.outbound.channels import STAND_IN, ChannelSettings
from betimes.outbound.settings import WebhookSettings
from betimes.scores.hourly_sweep import SweepSettings
from betimes.sensors.identity_tokens import IssuerSettings

DEVELOPMENT_CHANNELS = ChannelSettings(channels=dict.fromkeys(("push", "email", "sms"), STAND_IN))


Undeclared: TypeAlias = Literal["pause", "delete", "keep"]


class SettingFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that are the same in a configuration file and in Python."""

    webhooks: WebhookSettings = WebhookSettings()
    enrichment: EnrichmentSettings = EnrichmentSettings()
    """The score provider of notifications, unless an application declares one: an endpoint or a Python function, and
    its limits."""
    sweep: SweepSettings = SweepSettings()
    intents: IntentSettings = IntentSettings()
    handlers: HandlerSettings = HandlerSettings()
    """Python handlers and evaluators that definitions of tenants may name."""
    encryption: EncryptionSettings = EncryptionSettings()
    """Keys that signing secrets are encrypted with in the database."""
    engine: EngineSettings = EngineSettings()
    undeclared: Undeclared = "pause"
    """Treatment of schedules and sensors that an application no longer declares: pause, delete or keep."""


class Settings(SettingFields, frozen=True, kw_only=True):
    """The settings of a process; what rules go by is the policy, which is in the database."""

    channels: ChannelSettings = DEVELOPMENT_CHANNELS
    """Where messages go; without any, into the log."""
    sources: Mapping[str, SourceSettings] = msgspec.field(default_factory=dict)
    """Sources of conditions over HTTP, by name; those declared in Python come before them."""
    oidc: Mapping[str, IssuerSettings] = msgspec.field(default_factory=dict)
    """Trusted issuers of identity tokens of pushed messages, besides Google."""
