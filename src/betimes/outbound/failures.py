"""Failures of outside calls: one hierarchy, each error knowing whether trying again could help.

A message names the host, channel or handler and what it answered; never a path, query string, address, credential or
anything a receiver wrote. `giving_up` turns a failure that cannot pass into the engine's `GiveUp`, in an executor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from betimes.core.errors import BetimesError
from betimes.engine.effects import GiveUp, RetryAfter

# Of the 4xx, those that say to come back later; any other says that the request itself is wrong.
RETRIED_STATUSES = frozenset({408, 409, 425, 429})


class EffectFailed(BetimesError):
    """An outside call did not happen, or its outcome is unknown."""

    permanent: bool = False
    """Trying the same again cannot succeed."""


class WebhookFailed(EffectFailed):
    """A webhook was not accepted by its receiver."""


class BadUrl(WebhookFailed):
    """The URL is none that may be called."""

    permanent = True


class ForbiddenAddress(WebhookFailed):
    """The host is at an address that may not be called."""

    permanent = True


class BadRequest(WebhookFailed):
    """The body, the id or a header cannot be sent."""

    permanent = True


class NoSecret(WebhookFailed):
    """The tenant has no secret to sign with, or one that is no secret."""


class Unreachable(WebhookFailed):
    """The name, the connection, TLS or the protocol failed."""


class TimedOut(WebhookFailed):
    """The receiver took too long; it may have acted all the same."""


class AnswerTooLarge(WebhookFailed):
    """The receiver answered with more than is read."""


class BadStatus(WebhookFailed):
    """The receiver answered with a status other than 2xx."""

    def __init__(self, host: str, status: int) -> None:
        followed = "; redirects are not followed" if 300 <= status < 400 else ""
        super().__init__(f"{host} answered {status}{followed}")
        self.status = status
        self.permanent = 400 <= status < 500 and status not in RETRIED_STATUSES


class ChannelSendFailed(EffectFailed):
    """A channel did not take the message."""


class UnknownChannel(ChannelSendFailed):
    """No channel of that name is configured for the tenant."""

    permanent = True


class BadAddress(ChannelSendFailed):
    """The address is missing, or is none that the channel can be given."""

    permanent = True


@contextmanager
def giving_up(pauses_s: Sequence[float] = ()) -> Iterator[None]:
    """Tell the engine when trying again is no use, and else after which pauses, if they are not its own."""
    try:
        yield
    except (GiveUp, RetryAfter):
        raise
    except Exception as failure:
        if isinstance(failure, EffectFailed) and failure.permanent:
            raise GiveUp(str(failure)) from failure
        if pauses_s:
            raise RetryAfter(failure, pauses_s) from failure
        raise
