"""The secrets that outbound calls are signed with: a tenant's own, or the deployment's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from betimes.admin.service import fresh_webhook_secret
from betimes.domain.deployment import PlainBox, SecretBox
from betimes.domain.service import Caller, Service
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.tenants.model import DEPLOYMENT, RotateWebhookSecret, TenantState, tenant_stream


class WebhookSecrets:
    """Gives `Webhooks` a tenant's secrets; `box` reads and encrypts what is stored."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine
        self.box: SecretBox = PlainBox()

    async def __call__(self, tenant: str) -> Sequence[str]:
        """Return the tenant's own secrets that are alive, or the deployment's."""
        engine = self._engine()
        now, service = await engine.store.now(), Service(engine, Caller())
        for stream in (tenant_stream(tenant), DEPLOYMENT):
            state: TenantState | None = await service.state(stream)
            if state and state.webhook_secret:
                ends_at = state.previous_webhook_secret_expires_at
                previous = [state.previous_webhook_secret] if ends_at is not None and ends_at > now else []
                return [self.box.open(secret, stream) for secret in (state.webhook_secret, *previous) if secret]
        return []

    async def ensure(self) -> None:
        """Let the deployment sign for tenants that have no secret of their own."""
        engine = self._engine()
        state: TenantState | None = await Service(engine, Caller()).state(DEPLOYMENT)
        if state is None or not state.webhook_secret:
            command = RotateWebhookSecret(self.box.seal(fresh_webhook_secret(), DEPLOYMENT), 0)
            await engine.submit(Submission(stream=DEPLOYMENT, command=command, actor="start"))
