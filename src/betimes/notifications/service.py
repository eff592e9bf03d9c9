"""The service of notifications: send them, try them in a dry run, and read their status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from betimes.core.checks import Examined, Rule, readable
from betimes.core.datetimes import instant, moment
from betimes.core.deciders import Command, Decision, View, Wake
from betimes.core.errors import BetimesError, Invalid, NotFound
from betimes.core.instants import Instant
from betimes.core.policies import Policy
from betimes.core.segments import Recorded, Segment
from betimes.core.streams import KeyId, StreamId
from betimes.core.verdicts import Verdict
from betimes.domain.derivation import derive, deriver
from betimes.domain.service import Caller, examine_request, in_slices, require_batch, trace_of
from betimes.engine.engine import Engine
from betimes.engine.jobs import Submission
from betimes.engine.store import LedgerQuery
from betimes.notifications.decide import INBOX, command_problems, item_of, name_problems
from betimes.notifications.evaluation import may_be_scored, sentence
from betimes.notifications.history import deliveries_of, load_history
from betimes.notifications.inboxes import Inboxes
from betimes.notifications.interventions import CancelNotification, ReleaseNotification
from betimes.notifications.message_texts import note_of
from betimes.notifications.model import (
    NOTIFICATIONS,
    InboxState,
    NotificationReply,
    Notify,
    inbox_stream,
    incident_stream,
)
from betimes.notifications.policy import NotificationsPolicy
from betimes.notifications.rule_context import RuleContext, shared_incident
from betimes.notifications.views import (
    BATCH_MAX,
    STATUS_BATCH_MAX,
    ClassifyRequest,
    NotificationRequest,
    NotificationStatus,
    NotificationVerdict,
    NotificationView,
    SentNotification,
    notification_rules,
)

Request = TypeVar("Request", NotificationRequest, ClassifyRequest)
INTERVENTIONS = "interventions"
"""The collection of keys under which waiting notifications are cancelled and released."""
_WAKES_MAX = 64
_NO_SUCH = "there is no notification {!r}; it was never sent, or its history was pruned"


class GivenScore(Protocol):
    """A provider's score, exactly."""

    @property
    def ten_thousandths(self) -> int: ...
    @property
    def source(self) -> str: ...


class Scorer(Protocol):
    """Scores notifications, or has no score in time; `enrichment.Enrichment` is one."""

    async def score_many(self, notifications: Sequence[Mapping[str, Any]]) -> Sequence[GivenScore | None]: ...


class Notifications(Inboxes):
    """Does this person hear this now, later or never?"""

    def __init__(self, engine: Engine, caller: Caller, enrichment: Scorer | None = None) -> None:
        super().__init__(engine, caller)
        self._enrichment = enrichment

    # -- sending

    async def send(
        self, request: Mapping[str, Any] | NotificationRequest | Examined[NotificationRequest], *, trace: bool = True
    ) -> NotificationVerdict:
        """Decide and deliver one; a repeat of its event id is answered from the record."""
        asked = await self._check_request(request, NotificationRequest)
        [command] = await self._commands_with_scores([asked])
        self.last = await self.engine.submit(self._submission(asked, command))
        return self._verdict_view(self.last, asked.event_id, trace=trace)

    async def send_many(
        self,
        requests: Sequence[Mapping[str, Any] | NotificationRequest | Examined[NotificationRequest]],
        *,
        trace: bool = False,
    ) -> list[NotificationVerdict | BetimesError]:
        """Send each as if it came alone, those to one person in their order; an error stands where a verdict would."""
        require_batch(requests, "items", BATCH_MAX)
        checked = await self._check_requests(requests)
        valid = [request for request in checked if isinstance(request, NotificationRequest)]
        commands = await self._commands_with_scores(valid)
        sent = iter(await self.engine.submit_many(list(map(self._submission, valid, commands))))
        return [
            one if isinstance(one, BetimesError) else self._view_or_error(next(sent), one, trace)
            async for one in in_slices(checked)
        ]

    def _view_or_error(
        self, answer: Recorded | BetimesError, request: NotificationRequest, trace: bool
    ) -> NotificationVerdict | BetimesError:
        if isinstance(answer, BetimesError):
            return answer
        return self._verdict_view(answer, request.event_id, trace=trace)

    async def _check_request(self, request: Any, kind: type[Request], policy: Policy | None = None) -> Request:
        """Return the request; raise `Invalid` with everything that is wrong with it, by types and by policy."""
        found: Examined[Request] = examine_request(request, kind)
        found.judge(notification_rules(self.caller.tenant))
        if found.found.total:
            policy = policy or await self.engine.policy_of(self.caller.tenant)
            found.judge(_name_rules(policy[NotificationsPolicy]))
            raise found.found.refusal()
        return found.value

    async def _check_requests(self, requests: Sequence[Any]) -> list[NotificationRequest | BetimesError]:
        """Return each request, or the error that names everything wrong with it."""
        checked: list[NotificationRequest | BetimesError] = []
        policy = None
        async for request in in_slices(requests):
            try:
                checked.append(await self._check_request(request, NotificationRequest, policy))
            except Invalid as error:
                checked.append(error)
                # Read for the others that are wrong too: a batch may hold hundreds of them.
                policy = policy or await self.engine.policy_of(self.caller.tenant)
            except BetimesError as error:
                checked.append(error)
        return checked

    def _submission(self, request: NotificationRequest, command: Notify) -> Submission:
        return Submission(
            stream=inbox_stream(self.caller.tenant, request.user_id),
            command=command,
            key=request.event_id,
            collection=NOTIFICATIONS,
            request=request.user_id,
            actor=self.caller.actor,
            correlation=request.correlation_id or self.caller.correlation,
            note=self.caller.note,
        )

    # -- enrichment

    async def _commands_with_scores(self, requests: Sequence[NotificationRequest | ClassifyRequest]) -> list[Notify]:
        """Return the commands, with the provider's score where the rules may need it.

        All are checked before the provider is asked about any, so that no answer waits for our own work.
        """
        commands = [_COMMANDS[type(request)](request) for request in requests]
        if self._enrichment is None or not commands:
            return commands
        policy = await self.engine.policy_of(self.caller.tenant)
        shared = incident_stream(self.caller.tenant)
        streams = [self._inbox(request.user_id) for request in requests]
        rows = await self.engine.store.load([*dict.fromkeys(streams), shared])
        now = await self.engine.store.now()
        states = {stream: self.engine.kinds.state_in(stream, row) for stream, row in rows.items()}
        section = policy[NotificationsPolicy]
        wanted = [
            _wants_score(command, self._view(stream, states, rows), section, _evaluated_at(request, now))
            for command, stream, request in zip(commands, streams, requests, strict=True)
        ]
        about = [_as_sent(request) for request, is_wanted in zip(requests, wanted, strict=True) if is_wanted]
        said = iter(await self._enrichment.score_many(about))
        return [
            _with_score(command, next(said)) if is_wanted else command
            for command, is_wanted in zip(commands, wanted, strict=True)
        ]

    def _view(self, stream: StreamId, states: Mapping[StreamId, Any], rows: Mapping[StreamId, Any]) -> View[InboxState]:
        shared = incident_stream(stream.tenant)
        version = rows[stream].version if stream in rows else 0
        return View(stream, states.get(stream), version, {shared: states.get(shared)})

    # -- dry runs

    async def classify(
        self, request: Mapping[str, Any] | ClassifyRequest | Examined[ClassifyRequest], *, trace: bool = True
    ) -> NotificationVerdict:
        """Return the verdict it would get, now or as of another instant.

        A dry run: nothing is changed or recorded.
        """
        asked = await self._check_request(request, ClassifyRequest)
        [command] = await self._commands_with_scores([asked])
        policy = await self.engine.policy_of(self.caller.tenant)
        stream, shared = self._inbox(asked.user_id), incident_stream(self.caller.tenant)
        rows = await self.engine.store.load([stream, shared])
        states = {name: self.engine.kinds.state_in(name, row) for name, row in rows.items()}
        now = await self.engine.store.now() if asked.at is None else instant(asked.at)
        view = _ring_due(self._view(stream, states, rows), policy, now)
        decision = INBOX.decide(replace(view, key=asked.event_id), command, policy, now)
        assert isinstance(decision, Decision)
        recorded = Recorded(stream, view.version, now, policy.fingerprint, decision.verdict, decision.reply)
        return self._verdict_view(recorded, asked.event_id, trace=trace, dry=True)

    # -- interventions

    async def cancel(self, event_id: str, *, trace: bool = True, key: str | None = None) -> NotificationView:
        """End a waiting one undelivered; raise `Refused` as NOT_WAITING if it does not wait.

        It ends as NEVER CANCELLED, with the status `cancelled`.
        """
        return await self._intervene(event_id, CancelNotification(event_id), trace, key)

    async def release(self, event_id: str, *, trace: bool = True, key: str | None = None) -> NotificationView:
        """Send a waiting one now; raise as `cancel`.

        NOW RELEASED, past all rules that only defer it. Expiry, a ban and an opt-out still apply.
        """
        return await self._intervene(event_id, ReleaseNotification(event_id), trace, key)

    async def _intervene(self, event_id: str, command: Command, trace: bool, key: str | None) -> NotificationView:
        stream = (await self._first(event_id)).stream
        await self.submit(stream, command, key=key, collection=INTERVENTIONS)
        return await self.notification(event_id, trace=trace)

    # -- history

    async def notification(self, event_id: str, *, trace: bool = True) -> NotificationView:
        """Return the status of a notification; raise `NotFound` for one that was never sent, or was pruned."""
        first = await self._first(event_id)
        kind = self.engine.kinds.of(first.stream)
        history = await load_history(self.engine.store, kind, first)
        latest = history.latest or kind.recorded(first)
        view = self._verdict_view(latest, event_id, trace=trace)
        note = note_of(first)
        assert note is not None
        deliveries = await deliveries_of(self.engine.store, history, first)
        return derive(
            NotificationView,
            view,
            note,
            notification=derive(SentNotification, note, event_id=event_id, user_id=first.stream.id),
            status=history.status_with(deliveries),
            judgements=history.judgements,
            deliveries=deliveries,
        )

    async def statuses(self, event_ids: Sequence[str]) -> list[NotificationStatus | BetimesError]:
        """Return the status of each, in order; an error stands where a status would."""
        require_batch(event_ids, "event_ids", STATUS_BATCH_MAX)
        return [await self._status(event_id) for event_id in event_ids]

    async def _status(self, event_id: str) -> NotificationStatus | BetimesError:
        try:
            first = await self._first(event_id)
        except NotFound as error:
            return error
        history = await load_history(self.engine.store, self.engine.kinds.of(first.stream), first)
        deliveries = await deliveries_of(self.engine.store, history, first) if history.status == "failed" else []
        status, last = history.status_with(deliveries), history.judgements[-1]
        return NotificationStatus(
            event_id, status, last.outcome, last.reasons, moment(history.defer_until), history.defer_count
        )

    async def _first(self, event_id: str) -> Segment:
        """Return the segment that brought it: by its key, or from the ledger when the key has expired."""
        store, tenant = self.engine.store, self.caller.tenant
        seen = await store.seen(KeyId(tenant, NOTIFICATIONS, event_id))
        found = (
            [seen.segment]
            if seen
            else await store.ledger(LedgerQuery(tenant=tenant, kind="inbox", key=event_id, limit=1))
        )
        if not found or note_of(found[0]) is None:
            raise NotFound(_NO_SUCH.format(event_id))
        return found[0]

    def _verdict_view(
        self, recorded: Recorded, event_id: str | None, *, trace: bool, dry: bool = False
    ) -> NotificationVerdict:
        verdict = recorded.verdict
        assert verdict is not None
        said = recorded.reply if isinstance(recorded.reply, NotificationReply) else NotificationReply()
        return _show_verdict(
            verdict,
            said,
            recorded,
            event_id=event_id,
            user_id=recorded.stream.id,
            explanation=sentence(verdict),
            ai_used=said.ai is not None and "AI_FALLBACK" not in said.flags,
            segment_id=None if dry else recorded.segment_id,
            trace=trace_of(self.engine.kinds, verdict) if trace else None,
        )


# Compiled beforehand, because every notification needs both; each looks up its fields in this order of sources.
_show_verdict = deriver(
    NotificationVerdict,
    Verdict,
    NotificationReply,
    Recorded,
    given=("event_id", "user_id", "explanation", "ai_used", "segment_id", "trace"),
)
_COMMANDS = {kind: deriver(Notify, kind) for kind in (NotificationRequest, ClassifyRequest)}


def _wants_score(command: Notify, view: View[InboxState], policy: NotificationsPolicy, now: Instant) -> bool:
    """Return whether the provider's score may be needed: now, or after a deferral."""
    if command_problems(command, policy):
        return False
    item = item_of(view, command, policy, now)
    return may_be_scored(RuleContext(view.stream, view.state or InboxState(), shared_incident(view), item, policy, now))


def _with_score(command: Notify, said: GivenScore | None) -> Notify:
    return replace(command, ai_score=said.ten_thousandths, ai_source=said.source) if said else command


def _name_rules(policy: NotificationsPolicy) -> tuple[Rule[Any], ...]:
    """Return the rules by which a request names only what the policy has."""
    return (
        lambda one: name_problems(one.event_type, (), policy),
        lambda one: name_problems(None, (name for _, name in readable(one.channels)), policy),
    )


def _ring_due(view: View[InboxState], policy: Policy, now: Instant) -> View[InboxState]:
    """Return the inbox after its alarms that are due by then, as a command would find it."""
    for _ in range(_WAKES_MAX):
        if view.state is None or (INBOX.alarm(view.state) or now + 1) > now:
            break
        state = view.state
        decision = INBOX.decide(view, Wake(), policy, now)
        assert isinstance(decision, Decision)
        for event in decision.events:
            state = INBOX.fold(state, event) or state
        view = replace(view, state=state, version=view.version + 1)
    return view


def _evaluated_at(request: NotificationRequest | ClassifyRequest, now: Instant) -> Instant:
    return instant(request.at) if isinstance(request, ClassifyRequest) and request.at else now


def _as_sent(request: NotificationRequest | ClassifyRequest) -> dict[str, Any]:
    """Return the notification as a provider is given it."""
    body: dict[str, Any] = msgspec.to_builtins(request)
    return {name: value for name, value in body.items() if name not in ("at", "tenant_id", "correlation_id")}
