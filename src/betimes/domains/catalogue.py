"""Every domain: its deciders, and its section of the policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from betimes.core.deciders import Decider
from betimes.domains.answers.decide import ANSWER
from betimes.domains.automation.decide import DECIDERS as AUTOMATION
from betimes.domains.automation.policy import AutomationPolicy
from betimes.domains.backtests.decide import BACKTESTS
from betimes.domains.hooks import Hooks
from betimes.domains.intents.decide import DECIDERS as INTENTS
from betimes.domains.intents.policy import IntentsPolicy
from betimes.domains.limits import LimitsPolicy
from betimes.domains.notifications.decide import DECIDERS as NOTIFICATIONS
from betimes.domains.notifications.policy import NotificationsPolicy
from betimes.domains.runs.decide import DECIDERS as RUNS
from betimes.domains.runs.policy import RunsPolicy
from betimes.domains.scores.decide import DECIDERS as SCORES
from betimes.domains.scores.policy import ScoresPolicy

DOMAINS: Mapping[str, tuple[Decider[Any], ...]] = {
    "runs": RUNS,
    "notifications": NOTIFICATIONS,
    "intents": INTENTS,
    "automation": AUTOMATION,
    "scores": SCORES,
}
DECIDERS: tuple[Decider[Any], ...] = (
    *(decider for deciders in DOMAINS.values() for decider in deciders), BACKTESTS, ANSWER,
)  # fmt: skip
"""Of the domains, and of what is asked about them."""
DOMAIN_OF: Mapping[str, str] = {decider.kind: name for name, deciders in DOMAINS.items() for decider in deciders}
"""The domain of each kind of stream."""

SECTIONS: Mapping[str, type[msgspec.Struct]] = {
    "runs": RunsPolicy,
    "notifications": NotificationsPolicy,
    "intents": IntentsPolicy,
    "automation": AutomationPolicy,
    "scores": ScoresPolicy,
    "hooks": Hooks,
    "limits": LimitsPolicy,
}
