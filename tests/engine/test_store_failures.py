"""A store that fails at the worst moment: what was answered is what was written."""

from __future__ import annotations

import asyncio

from betimes.core.errors import Unavailable
from betimes.core.streams import StreamId
from betimes.domains.tenant.model import SetPolicy, tenant_stream
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.stores.memory import MemoryStore
from betimes.testing.clock import VirtualClock
from betimes.testing.sample import SAMPLE, SECTIONS, Knock


def knocking(tenant: str, visitor: str) -> Submission:
    return Submission(stream=StreamId(tenant, "gate", "front"), command=Knock(visitor))


class ForgetfulStore(MemoryStore):
    """Cannot keep a policy the next time it is asked to."""

    forgets = False

    async def save_policy(self, fingerprint: str, body: str) -> None:
        if self.forgets:
            self.forgets = False
            raise Unavailable("the disk is full for a moment")
        await super().save_policy(fingerprint, body)


async def test_a_policy_that_cannot_be_kept_fails_nobody_who_was_committed() -> None:
    store = ForgetfulStore(VirtualClock())
    async with Engine(store, SAMPLE, name="one", sections=SECTIONS) as engine:
        await engine.submit(knocking("acme", "ann"))
        changed = SetPolicy({"gates": {"cooldown_s": 5}})
        await engine.submit(Submission(stream=tenant_stream("globex"), command=changed))
        store.forgets = True
        acme, globex = await asyncio.gather(
            engine.submit(knocking("acme", "bob")), engine.submit(knocking("globex", "cid"))
        )
        assert not store.forgets
        assert (acme.version, globex.version) == (2, 1)
