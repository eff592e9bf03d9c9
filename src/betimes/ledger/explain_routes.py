"""Routes of explanations: the rules there are, and what would have had to be different."""

from __future__ import annotations

from functools import partial

from betimes.http.service_calls import ServiceCalls, route
from betimes.ledger.routes import ledger_of
from betimes.ledger.service import Ledger

_ledger = ServiceCalls(ledger_of)
_get = partial(route, method="GET", scope="any:read", tag="Time and history")

ROUTES = (
    _get(
        "/v1/explain/{segment_id}/alternatives",
        _ledger.call(Ledger.alternatives),
        "What would have had to be different",
        description="The segment is decided again with everything as it was; then the least change of each kind that "
        "gives a better answer is looked for: the instant, a rule that does not bind, one setting, the request, the "
        "person or the definition. At most 200 decisions and half a second.",
    ),
    _get(
        "/v1/rules",
        _ledger.call(Ledger.rules),
        "The rules there are",
        description="Every table of rules of the domains the key may read, in the order they are looked at, with what "
        "each records, both of its sentences, the settings it goes by, and its mode under the policy in force.",
    ),
)
