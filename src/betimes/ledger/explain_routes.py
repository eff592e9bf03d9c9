"""Routes of explanations: the rules there are."""

from __future__ import annotations

from betimes.http.routes import RequestContext, Route
from betimes.ledger.routes import ledger_of
from betimes.ledger.rule_views import RuleTables

TAG = "Time and history"


async def rules(request: RequestContext) -> RuleTables:
    return await ledger_of(request).rules()


ROUTES = (
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
