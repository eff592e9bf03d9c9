"""Jobs: commands of callers, alarms, commands of other streams, ends of effects; and the queue they wait in.

The queue is fair between tenants. Each has one of its own, first come, first served. Jobs are taken round by round, one
of each tenant that has any, so a tenant that floods the process delays its own jobs and hardly anybody else's.

A job that comes while a batch is being written waits for it. So where several tenants were served lately, one of them
gets only a part of a batch: it would otherwise fill all of it between two jobs of another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeAlias

import msgspec

from betimes.core.canonical import fingerprint
from betimes.core.deciders import NO_NEEDS, NO_READS, Command, Wake
from betimes.core.errors import BetimesError, Fault, Invalid, MalformedRow, MissingScope
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.core.segments import Recorded, check_note
from betimes.core.streams import EffectId, KeyId, StreamId, check_stream
from betimes.engine.codecs import Kinds, decode_text
from betimes.engine.store import EffectStatus, Settlement
from betimes.engine.tenants.model import DEPLOYMENT

WAKE = Wake()
NEWS_PLACE = 1_000_000
"""Added to the place of a call whose end its stream could not be told, it names the send that will tell it."""
CORRELATION_CHARS_MAX = 128
"""Of a correlation id that callers may send, and that is therefore handed to them."""
TEXT_CHARS_MAX = 512
"""Of a key, a collection, an actor, a correlation id."""
PART_OF_BATCH = 8
PART_MIN = 16
"""A tenant's part of a batch among others: an eighth of it, and at least so many jobs."""
LATELY_BATCHES = 64
"""For how many batches a tenant that was served counts as one of several."""


class Submission(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A command for a stream, with its idempotency key and who asked."""

    stream: StreamId
    command: Command
    key: str | None = None
    collection: str = ""
    """Keys are unique within it; by default it is the stream's kind. Without a key it says nothing."""
    request: str = ""
    """What a repeat of the key must agree in; by default the stream and the whole command."""
    actor: str = ""
    correlation: str = ""
    note: str = ""
    """The reason, for readers of the segment; a command's own `note` takes precedence."""
    cause: str = ""
    """The segment that a worker acts on (`segment_cause`); commands that effects bring have theirs from the effect."""

    def check(self, kinds: Kinds) -> None:
        """Refuse a command of another kind, and what no store could keep, naming every part that is wrong."""
        try:
            check_stream(self.stream.tenant, self.stream.kind, self.stream.id)
        except (AttributeError, TypeError) as error:
            raise Invalid(
                f"{self.stream!r} is not a StreamId of three strings; make one with stream(kind, id)"
            ) from error
        kinds.by_name[self.stream.kind].check_command(self.command)
        if self.key == "":
            raise Invalid("the key is empty; leave it out, or give one", (("key", "empty"),))
        if self.note:
            check_note(self.command, self.note)
        # One look at all of them: together they are hardly ever longer than one alone may be.
        together = f"{self.key}{self.collection}{self.actor}{self.correlation}{self.cause}"
        if len(together) > TEXT_CHARS_MAX or "\0" in together:
            self._check_texts()

    def _check_texts(self) -> None:
        texts = [(name, getattr(self, name) or "") for name in ("key", "collection", "actor", "correlation", "cause")]
        problems = tuple(
            (name, f"{name} is longer than {TEXT_CHARS_MAX} characters or holds a NUL")
            for name, text in texts
            if len(text) > TEXT_CHARS_MAX or "\0" in text
        )
        if problems:
            raise Invalid("; ".join(message for _, message in problems), problems)


Outcome: TypeAlias = Recorded | BaseException
_ANSWERS = (Recorded, BetimesError)
"""A tuple, because a union would be made anew for each answer."""


class JointAnswer:
    """The answers of jobs that were submitted together, awaited as one future instead of one each."""

    __slots__ = ("_left", "_outcomes", "_whole")

    def __init__(self, count: int) -> None:
        self._outcomes: list[Outcome | None] = [None] * count
        self._left = count
        self._whole: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fill(self, place: int, outcome: Outcome) -> None:
        self._outcomes[place] = outcome
        self._left -= 1
        if not self._left and not self._whole.done():  # whoever waited may have gone
            self._whole.set_result(None)

    def is_filled(self, place: int) -> bool:
        return self._outcomes[place] is not None

    async def wait(self) -> list[Recorded | BetimesError]:
        """Return what became of each, in its place, once all are done; raise what is no answer to a command."""
        if self._left:
            await asyncio.shield(self._whole)  # whoever is cancelled may wait again
        answers: list[Recorded | BetimesError] = []
        for outcome in self._outcomes:
            if not isinstance(outcome, _ANSWERS):
                raise outcome or Fault("a command got no answer")
            answers.append(outcome)
        return answers


class AnswerPart:
    """One place of a joint answer, for the job it is of."""

    __slots__ = ("_joint", "_place")

    def __init__(self, joint: JointAnswer, place: int) -> None:
        self._joint = joint
        self._place = place

    def done(self) -> bool:
        return self._joint.is_filled(self._place)

    def set_result(self, recorded: Recorded) -> None:
        self._joint.fill(self._place, recorded)

    def set_exception(self, error: BaseException) -> None:
        self._joint.fill(self._place, error)


Answer: TypeAlias = "asyncio.Future[Recorded] | AnswerPart"


class Ended(msgspec.Struct, frozen=True, gc=False):
    """The end of an attempt at an effect. `retry_after_us` is set when there is to be another."""

    id: EffectId
    fence: int
    status: EffectStatus
    retry_after_us: int | None = None
    error: str = ""
    duration_ms: int | None = None
    created_at: Instant = 0
    """When the effect was asked for."""

    def settlement(self, now: Instant) -> Settlement:
        next_at = None if self.retry_after_us is None else now + self.retry_after_us
        return Settlement(self.id, self.fence, self.status, now, next_at, self.error, self.duration_ms)


class Sent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A command to another stream as it waits in the store."""

    command: msgspec.Raw
    key: str | None = None
    collection: str = ""
    request: str = ""
    correlation: str = ""
    authority: tuple[str, ...] | None = None
    written_down: bool = False
    """Whether the command comes from a caller, not from a decider."""


def correlation_of(correlation: str, key: str | None) -> str:
    """Return the correlation that a turn hands on with a send; what nobody named is known by the send's key."""
    return correlation or (key or "")[:CORRELATION_CHARS_MAX]


_sents = msgspec.json.Decoder(Sent)


class Job:
    """One entry of the queue: the command that is asked for, and how far it has come.

    One without a stream has no submission either: it only settles an effect.
    """

    __slots__ = (
        "_request",
        "also_locks",
        "answer",
        "cause",
        "ended",
        "held_count",
        "key",
        "policy",
        "reads",
        "send",
        "stream",
        "streams",
        "submission",
        "tenant",
        "unreadable",
    )

    def __init__(
        self,
        asked: Submission | None,
        *,
        cause: str = "",
        send: EffectId | None = None,
        ended: Ended | None = None,
        answer: Answer | None = None,
    ) -> None:
        if asked:
            self.submission = asked
        self.stream = asked.stream if asked else None
        self.tenant = asked.stream.tenant if asked else ended.id.tenant if ended else ""
        """The tenant whose turn in the queue it takes."""
        self.key = KeyId(self.tenant, asked.collection or asked.stream.kind, asked.key) if asked and asked.key else None
        self.cause = cause
        self.send = send
        self.ended = ended
        self.answer = answer
        self.held_count = 0
        self.unreadable: BetimesError | None = None
        """Why a send cannot be decided by anybody."""
        self.policy: Policy | None = None
        self.streams: tuple[StreamId, ...] = ()
        """Streams it must lock under that policy."""
        self.reads: tuple[StreamId, ...] = ()
        """Streams it only reads."""
        self.also_locks: tuple[StreamId, ...] = ()
        self._request: str | None = None

    @classmethod
    def of_send(cls, id: EffectId, to: StreamId, payload: str, kinds: Kinds) -> Job:
        """A command another stream sent, decoded as its target reads it."""
        kind = kinds.of(to)
        try:
            sent = decode_text(_sents, payload, "the command", id)
            command = kind.command(bytes(sent.command).decode(), id)
            if sent.authority is not None:
                kind.check_authority(command, sent.authority, written_down=sent.written_down)
        except (MalformedRow, Invalid, MissingScope) as error:
            # It still takes its turn: as a dead letter it lets the sends behind it pass, which it would hold up for
            # ever.
            broken = cls(Submission(stream=to, command=WAKE), cause=id.handle, send=id)
            broken.unreadable = error
            return broken
        asked = Submission(
            stream=to,
            command=command,
            key=sent.key,
            collection=sent.collection,
            request=sent.request,
            correlation=sent.correlation,
        )
        # The send that tells of a call's end was made for that call, which is the cause.
        cause = id if id.place < NEWS_PLACE else id._replace(place=id.place - NEWS_PLACE)
        return cls(asked, cause=cause.handle, send=id)

    @property
    def request(self) -> str:
        """What a repeat of the key must agree in; made when it is first needed, because it is a digest of the whole."""
        if self._request is None:
            asked = self.submission
            self._request = asked.request or fingerprint((asked.stream, asked.command))
        return self._request

    @property
    def is_internal(self) -> bool:
        """Nobody waits for it: if it cannot be done now it is found again."""
        return self.answer is None

    @property
    def name(self) -> str:
        if self.stream is None:
            return f"the end of effect {self.cause}"
        return f"{type(self.submission.command).__name__} for {self.stream}"

    def end(self, outcome: Outcome) -> None:
        """Give the result to its caller."""
        if not self.answer or self.answer.done():
            return
        if isinstance(outcome, Recorded):
            self.answer.set_result(outcome)
        else:
            self.answer.set_exception(outcome)


# -- the streams that a job needs


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
        raise Fault(f"finding the streams that a command of {stream} needs failed: {error!r}") from error
    others = (*needed, *job.also_locks)
    job.streams = tuple(dict.fromkeys((stream, *others))) if others else (stream,)
    job.policy, job.reads = policy, reads


class FairQueue:
    """Jobs that wait, by tenant; where several have any, one gets this part of a batch."""

    def __init__(self, part_of_batch: int = PART_OF_BATCH) -> None:
        self._part_of_batch = part_of_batch
        self._queues: dict[str, deque[Job]] = {}
        """The tenants that have jobs, whose turn is next first."""
        self.size = 0
        """How many jobs wait."""
        self._batch = 0
        self._served: dict[str, int] = {}
        """The tenants that were served lately, each with its last batch, which is also their order."""

    def __iter__(self) -> Iterator[Job]:
        for queue in self._queues.values():
            yield from queue

    def count(self, tenant: str) -> int:
        """Return how many jobs of a tenant wait."""
        return len(self._queues.get(tenant, ()))

    def append(self, job: Job) -> None:
        """Put a job behind those of its tenant."""
        queue = self._queues.get(job.tenant)
        if queue is None:
            queue = self._queues[job.tenant] = deque()
        queue.append(job)
        self.size += 1

    def put_back(self, jobs: Iterable[Job]) -> None:
        """Put jobs that were taken before those of their tenants, in the order given."""
        # The last one first, so that each lands before the one that stood behind it.
        for job in reversed(list(jobs)):
            self._queues.setdefault(job.tenant, deque()).appendleft(job)
            self.size += 1

    def take(self, limit: int) -> list[Job]:
        """Take up to `limit` jobs, one of each tenant in turn; who was served last is the last to be served again."""
        taken: list[Job] = []
        # The deployment's own commands, such as its policy at every start, are nobody's competition.
        others = (self._served.keys() | self._queues.keys()) - {DEPLOYMENT.tenant}
        most = max(limit // self._part_of_batch, PART_MIN) if len(others) > 1 else limit
        # Each gets at least one, so more tenants than the limit cannot be served.
        waiting = dict.fromkeys(islice(self._queues, limit), most)
        self._note(waiting)
        while waiting and len(taken) < limit:
            tenant, part = next(iter(waiting.items()))
            del waiting[tenant]
            # The last tenant left takes what remains at once: nobody else waits for a turn in between.
            count = 1 if waiting else min(part, limit - len(taken))
            left = self._take_of(tenant, count, taken)
            if left and part > count:
                waiting[tenant] = part - count
        self.size -= len(taken)
        return taken

    def _take_of(self, tenant: str, count: int, taken: list[Job]) -> int:
        """Take so many jobs of one tenant, as far as it has them, and let it stand last; return how many are left."""
        queue = self._queues.pop(tenant)
        taken += [queue.popleft() for _ in range(min(count, len(queue)))]
        if queue:
            self._queues[tenant] = queue
        return len(queue)

    def _note(self, tenants: Iterable[str]) -> None:
        self._batch += 1
        for tenant in tenants:
            # Taken out first, so that it moves to the end: the dict is ordered by the last batch.
            self._served.pop(tenant, None)
            self._served[tenant] = self._batch
        while self._served and next(iter(self._served.values())) <= self._batch - LATELY_BATCHES:
            del self._served[next(iter(self._served))]

    def clear(self) -> None:
        """Forget all jobs."""
        self._queues.clear()
        self.size = 0
