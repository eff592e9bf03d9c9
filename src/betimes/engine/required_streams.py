"""The streams a job must hold and those it only looks at, as its decider says, before any state is seen."""

from __future__ import annotations

from betimes.core.deciders import NO_NEEDS, NO_READS
from betimes.core.errors import BetimesError, Fault
from betimes.core.policies import Policy
from betimes.core.streams import StreamId
from betimes.engine.codecs import Kinds
from betimes.engine.jobs import WAKE, Job


def note_streams(kinds: Kinds, job: Job, policy: Policy) -> None:
    """Note on a job what it must hold under a policy, its own stream first, and what it only looks at.

    The streams that a wake ahead of it needs are among those it holds. Raise `Fault` if the decider fails.
    """
    asked = job.submission
    stream, decider = asked.stream, kinds.by_name[asked.stream.kind].decider
    needed: tuple[StreamId, ...] = ()
    try:
        if decider.needs is not NO_NEEDS:
            # An alarm that is due rings in the same turn, ahead of the command.
            needed = (*decider.needs(stream, asked.command, policy), *decider.needs(stream, WAKE, policy))
        reads = () if decider.reads is NO_READS else decider.reads(stream)
    except BetimesError:
        raise
    except Exception as error:
        raise Fault(f"asking what {stream} needs failed: {error!r}") from error
    others = (*needed, *job.also_locks)
    job.streams = tuple(dict.fromkeys((stream, *others))) if others else (stream,)
    job.policy, job.reads = policy, reads
