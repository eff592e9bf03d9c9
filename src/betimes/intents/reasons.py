"""Every reason an answer to a claim or a fire may carry, and what it means."""

from __future__ import annotations

REASONS = {
    "DUE": "it is due and nobody has claimed it",
    "DISABLED": "it is disabled",
    "ALREADY_CLAIMED": "a worker has claimed it",
    "NOT_DUE": "its next check is later, or never",
    "COOLDOWN": "it fired too recently to be claimed",
    "NOT_CLAIMABLE": "it is reserved for another kind of worker",
    "RECORDED": "the fire was recorded",
    "COOLDOWN_ACTIVE": "it fired too recently to fire again",
    "CLAIM_EXPIRED": "the worker that claimed it did not report back",
}
