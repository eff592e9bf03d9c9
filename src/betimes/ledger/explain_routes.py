"""Routes of explanations: the rules there are, and what would have had to be different."""

from __future__ import annotations

from betimes.http.routes import RequestContext, Route
from betimes.ledger.alternative_search import AlternativesView
from betimes.ledger.routes import ledger_of
from betimes.ledger.rule_views import RuleTables

TAG = "Time and history"


async def rules(request: RequestContext) -> RuleTables:
    return await ledger_of(request).rules()


async def alternatives(request: RequestContext) -> AlternativesView:
    return await ledger_of(request).alternatives(request.path["segment_id"])


ROUTES = (
    Route(
        method="GET",
        path="/v1/explain/{segment_id}/alternatives",
        scope="any:read",
        answer=alternatives,
        tag=TAG,
        summary="What would have had to be different",
        description="The segment is decided again with everything as it was; then the least change of each kind that "
        "gives a better answer is looked for: the instant, a rule that does not bind, one setting, the request, the "
        "person or the definition. At most 200 decisions and half a second.",
        reply=AlternativesView,
    ),
    Route(
        method="GET",
        path="/v1/rules",
        scope="any:read",
        answer=rules,
        tag=TAG,
        summary="The rules there are",
        description="Every table of rules of the domains the key may read, in the order they are looked at, with what "
        "each records, both of its sentences, the settings it goes by, and its mode under the policy in force.",
        reply=RuleTables,
    ),
)
