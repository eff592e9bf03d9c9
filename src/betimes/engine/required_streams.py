"""The streams a job must hold and those it only looks at, as its decider says, before any state is seen."""

from __future__ import annotations

from betimes.core.deciders import NO_NEEDS, NO_READS
from betimes.core.errors import BetimesError, Fault
from betimes.core.policies import Policy
from betimes.core.streams import StreamId
from betimes.engine.codecs import Kinds
from betimes.engine.jobs import WAKE, Job


def streams_of(kinds: Kinds, job: Job, policy: Policy) -> tuple[StreamId, ...]:
    """The streams a job must hold, its own first; those a wake ahead of it needs are among them."""
    asked = job.submission
    stream, decider = asked.stream, kinds.by_name[asked.stream.kind].decider
    if decider.needs is NO_NEEDS and not job.also_locks:
        return (stream,)
    try:
        needed = decider.needs(stream, asked.command, policy)
        # An alarm that is due rings in the same turn, ahead of the command.
        woken = decider.needs(stream, WAKE, policy)
    except BetimesError:
        raise
    except Exception as error:
        raise Fault(f"asking what {stream} needs failed: {error!r}") from error
    if not needed and not woken and not job.also_locks:
        return (stream,)
    return tuple(dict.fromkeys((stream, *needed, *woken, *job.also_locks)))


def reads_of(kinds: Kinds, stream: StreamId) -> tuple[StreamId, ...]:
    """The streams a job looks at without holding them."""
    decider = kinds.by_name[stream.kind].decider
    if decider.reads is NO_READS:
        return ()
    try:
        return decider.reads(stream)
    except Exception as error:
        raise Fault(f"asking what {stream} looks at failed: {error!r}") from error
