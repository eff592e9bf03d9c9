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
from betimes.core.errors import BetimesError
from betimes.core.instants import Instant, parse, render
from betimes.core.policies import Policy
from betimes.core.segments import Recorded, Segment
from betimes.core.streams import StreamId
from betimes.core.verdicts import Verdict
from betimes.domains.tenant.model import SetPolicy, tenant_stream
from betimes.engine.calls import GiveUp
from betimes.engine.engine import Engine, TickResult
from betimes.engine.explaining import Explanation, explain
from betimes.engine.jobs import Submission
from betimes.engine.pruning import PruneReport, Retention, prune
from betimes.engine.replay import VerifyReport, replay, verify
from betimes.engine.settings import EngineSettings

__version__ = version("betimes")

__all__ = [
    "BetimesError",
    "Call",
    "Decider",
    "Decision",
    "EffectCall",
    "Engine",
    "EngineSettings",
    "Explanation",
    "GiveUp",
    "Index",
    "Instant",
    "Policy",
    "PruneReport",
    "Recorded",
    "Refusal",
    "Retention",
    "Segment",
    "Send",
    "SetPolicy",
    "Settled",
    "StreamId",
    "Submission",
    "TickResult",
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
