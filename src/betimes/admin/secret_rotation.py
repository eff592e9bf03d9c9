"""Rotation of the keys that stored secrets are encrypted with: every secret is encrypted again.

Every secret of a tenant or sensor that is not stored under the first key is read and recorded anew, in a segment of its
own. Older segments of the ledger stay as they are until they are pruned.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from betimes.core.canonical import fingerprint
from betimes.core.deciders import Command
from betimes.core.errors import Refused, Unavailable
from betimes.core.streams import StreamId
from betimes.domain.deployment import SecretBox
from betimes.domain.json_view import JsonView
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.store import PAGE_MAX, StreamQuery
from betimes.engine.tenants.model import ResealWebhookSecrets, TenantState
from betimes.sensors.model import ResealSecrets, SensorState


class ResealReport(JsonView, frozen=True):
    resealed: int
    """Streams whose secrets are stored under the first key now."""
    current: int
    """Those whose secrets already were."""
    unreadable: list[str]
    """Those with a secret whose key is not there, or that was changed meanwhile."""


async def reseal_secrets(engine: Engine, box: SecretBox, actor: str) -> ResealReport:
    """Store every secret under the first key, in every tenant."""
    resealed, current, unreadable = 0, 0, []
    async for stream, state in _holders(engine):
        stored = _secrets_in(state)
        if all(box.is_current(secret) for secret in stored if secret):
            current += 1 if any(stored) else 0
            continue
        try:
            sealed = [secret and box.seal(box.open(secret, stream), stream) for secret in stored]
            # With a fingerprint of what was read: a secret that is rotated meanwhile must not be overwritten by the
            # old one.
            command = _reseal_command(state, sealed, fingerprint(tuple(stored)))
            await engine.submit(Submission(stream=stream, command=command, actor=actor))
            resealed += 1
        except (Unavailable, Refused):
            unreadable.append(f"{stream.tenant}/{stream.kind}/{stream.id}")
    return ResealReport(resealed, current, unreadable)


async def _holders(engine: Engine) -> AsyncIterator[tuple[StreamId, TenantState | SensorState]]:
    for kind in ("tenant", "sensor"):
        after: StreamId | None = None
        while True:
            page = await engine.store.streams(StreamQuery(kind=kind, after=after, limit=PAGE_MAX))
            for row in page:
                state: Any = engine.kinds.state_in(row.stream, row)
                if isinstance(state, TenantState) or (state is not None and state.definition.auth == "signature"):
                    yield row.stream, state
            if len(page) < PAGE_MAX:
                break
            after = page[-1].stream


def _secrets_in(state: TenantState | SensorState) -> list[str]:
    if isinstance(state, TenantState):
        return [state.webhook_secret, state.previous_webhook_secret]
    return [one.secret for one in state.secrets]


def _reseal_command(state: TenantState | SensorState, sealed: list[str], was: str) -> Command:
    if isinstance(state, TenantState):
        secret, previous = sealed
        return ResealWebhookSecrets(secret, previous, was)
    return ResealSecrets(tuple(sealed), was)
