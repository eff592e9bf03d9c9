"""betimes: a durable timing engine. May this happen now, later or never, and why?

What is exported here is the public API; `betimes.testing` is public too. Stores are imported from `betimes.stores`, so
that only what is used needs to be installed. A name is loaded when it is first used, so that importing the package
costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from betimes.app.betimes import Betimes
    from betimes.app.blocking_betimes import BlockingBetimes
    from betimes.backtest.plan import Plan, planned
    from betimes.backtest.report import BacktestReport
    from betimes.core.deciders import Call, Decider, Decision, EffectCall, Index, Refusal, Send, Settled, View, Wake
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
    from betimes.engine.effects import GiveUp, RetryAfter
    from betimes.engine.engine import Engine
    from betimes.engine.explanation import Explanation, explain
    from betimes.engine.jobs import Submission
    from betimes.engine.pruning import PruneReport, Retention, prune
    from betimes.engine.replay import VerifyReport, replay, verify
    from betimes.engine.reports import Report
    from betimes.engine.settings import EngineSettings
    from betimes.engine.store import EffectQuery
    from betimes.engine.tenants.model import DEPLOYMENT, SetPolicy, tenant_stream
    from betimes.engine.tick_result import TickResult
    from betimes.engine.virtual_clock import VirtualClock
    from betimes.outbound.channels import ChannelMessage
    from betimes.outbound.handlers import HandlerContext

    __version__: str

_NAMES = {
    # module: what of it is public
    "betimes.app.betimes": "Betimes",
    "betimes.app.blocking_betimes": "BlockingBetimes",
    "betimes.backtest.plan": "Plan planned",
    "betimes.backtest.report": "BacktestReport",
    "betimes.core.deciders": "Call Decider Decision EffectCall Index Refusal Send Settled View Wake",
    "betimes.core.errors": "BetimesError Fault Invalid KeyConflict NotFound "
    "Overloaded PolicyInvalid Refused TooLarge Unavailable Unknown",
    "betimes.core.instants": "DAY HOUR MINUTE SECOND Instant parse render",
    "betimes.core.policies": "Policy",
    "betimes.core.segments": "Recorded Segment",
    "betimes.core.streams": "StreamId",
    "betimes.core.verdicts": "Finding Hit Rule RuleTable Verdict",
    "betimes.engine.tenants.model": "DEPLOYMENT SetPolicy tenant_stream",
    "betimes.engine.effects": "GiveUp RetryAfter",
    "betimes.engine.engine": "Engine",
    "betimes.engine.tick_result": "TickResult",
    "betimes.engine.explanation": "Explanation explain",
    "betimes.engine.jobs": "Submission",
    "betimes.engine.pruning": "PruneReport Retention prune",
    "betimes.engine.replay": "VerifyReport replay verify",
    "betimes.engine.reports": "Report",
    "betimes.engine.settings": "EngineSettings",
    "betimes.engine.store": "EffectQuery",
    "betimes.engine.virtual_clock": "VirtualClock",
    "betimes.outbound.channels": "ChannelMessage",
    "betimes.outbound.handlers": "HandlerContext",
}
_PLACES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        found: Any = version("betimes")
    elif name in _PLACES:
        found = getattr(import_module(_PLACES[name]), name)
    else:
        raise AttributeError(f"module 'betimes' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


__all__ = [
    "DAY",
    "DEPLOYMENT",
    "HOUR",
    "MINUTE",
    "SECOND",
    "BacktestReport",
    "Betimes",
    "BetimesError",
    "BlockingBetimes",
    "Call",
    "ChannelMessage",
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
    "HandlerContext",
    "Hit",
    "Index",
    "Instant",
    "Invalid",
    "KeyConflict",
    "NotFound",
    "Overloaded",
    "Plan",
    "Policy",
    "PolicyInvalid",
    "PruneReport",
    "Recorded",
    "Refusal",
    "Refused",
    "Report",
    "Retention",
    "RetryAfter",
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
    "VirtualClock",
    "Wake",
    "explain",
    "parse",
    "planned",
    "prune",
    "render",
    "replay",
    "tenant_stream",
    "verify",
]
