"""betimes: a durable timing engine. May this happen now, later or never, and why?

What is exported here is the public API; `betimes.testing` is public too. Stores are imported from `betimes.stores`, so
that only what is used needs to be installed.
"""

from importlib.metadata import version

from betimes.core.deciders import (
    Call,
    Decider,
    Decision,
    EffectCall,
    Index,
    Refusal,
    Send,
    Settled,
    View,
    Wake,
)
from betimes.core.errors import (
    BetimesError,
    Fault,
    Invalid,
    KeyConflict,
    NotFound,
    Overloaded,
    PolicyInvalid,
    Refused,
    TooLarge,
    Unavailable,
    Unknown,
)
from betimes.core.instants import DAY, HOUR, MINUTE, SECOND, Instant, parse, render
from betimes.core.policies import Policy
from betimes.core.segments import Recorded, Segment
from betimes.core.streams import StreamId
from betimes.core.verdicts import Finding, Hit, Rule, RuleTable, Verdict
from betimes.domains.tenant.model import DEPLOYMENT, SetPolicy, tenant_stream
from betimes.engine.calls import GiveUp
from betimes.engine.engine import Engine, TickResult
from betimes.engine.explaining import Explanation, explain
from betimes.engine.jobs import Submission
from betimes.engine.pruning import PruneReport, Retention, prune
from betimes.engine.replay import VerifyReport, replay, verify
from betimes.engine.reports import Report
from betimes.engine.settings import EngineSettings
from betimes.engine.store import EffectQuery

__version__ = version("betimes")

__all__ = [
    "DAY",
    "DEPLOYMENT",
    "HOUR",
    "MINUTE",
    "SECOND",
    "BetimesError",
    "Call",
    "Decider",
    "Decision",
    "EffectCall",
    "EffectQuery",
    "Engine",
    "EngineSettings",
    "Explanation",
    "Fault",
    "Finding",
    "GiveUp",
    "Hit",
    "Index",
    "Instant",
    "Invalid",
    "KeyConflict",
    "NotFound",
    "Overloaded",
    "Policy",
    "PolicyInvalid",
    "PruneReport",
    "Recorded",
    "Refusal",
    "Refused",
    "Report",
    "Retention",
    "Rule",
    "RuleTable",
    "Segment",
    "Send",
    "SetPolicy",
    "Settled",
    "StreamId",
    "Submission",
    "TickResult",
    "TooLarge",
    "Unavailable",
    "Unknown",
    "Verdict",
    "VerifyReport",
    "View",
    "Wake",
    "explain",
    "parse",
    "prune",
    "render",
    "replay",
    "tenant_stream",
    "verify",
]
