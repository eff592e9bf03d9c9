"""Routes of notifications: sending, status, and the people who receive them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from betimes.core.checks import Examined
from betimes.http.batches import Batch, batch
from betimes.http.definitions import merge_patch
from betimes.http.routes import Answer, RequestContext, Traced, answer_of
from betimes.http.service_calls import ServiceRoutes
from betimes.notifications.inboxes import PREFERENCES_READ_ONLY
from betimes.notifications.service import Notifications
from betimes.notifications.views import (
    STATUS_BATCH_MAX,
    IncidentRequest,
    IncidentView,
    NotificationRequest,
    NotificationStatus,
    NotificationVerdict,
    PreferencesRequest,
    PreferencesView,
    PreferencesWritten,
)

TAG = "Notifications"
USER = "/v1/users/{user_id}"


class StatusRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    event_ids: Annotated[list[str], msgspec.Meta(min_length=1, max_length=STATUS_BATCH_MAX)]


# -- notifications


async def send(request: RequestContext[Examined[NotificationRequest]]) -> Answer[NotificationVerdict]:
    verdict = await request.services.notifications.send(request.body, trace=request.wants_trace)
    return Answer(verdict, headers={"Idempotency-Replayed": "true"} if verdict.is_replay else {})


async def send_many(whole: RequestContext, items: list[RequestContext]) -> Sequence[Any]:
    """Send them together, so that those to one person keep their order."""
    bodies = [item.body for item in items]
    return await whole.services.notifications.send_many(bodies, trace=items[0].wants_trace)


async def statuses(request: RequestContext[StatusRequest]) -> Batch[NotificationStatus]:
    return batch(await request.services.notifications.statuses(request.body.event_ids), "event_ids")


# -- people


async def preferences(request: RequestContext) -> Answer[PreferencesView]:
    view = await request.services.notifications.preferences(request.path["user_id"])
    return Answer(view, headers={"ETag": f'"{view.version}"'})


async def put_preferences(request: RequestContext[Examined[PreferencesRequest]]) -> Answer[PreferencesWritten]:
    service = request.services.notifications
    version = 0 if request.only_create else request.expected_version
    view = await service.set_preferences(request.path["user_id"], request.body, if_match=version)
    return answer_of(service, view, version=view.version)


async def patch_preferences(request: RequestContext) -> Answer[PreferencesWritten]:
    service = request.services.notifications
    view = await service.patch_preferences(
        request.path["user_id"], request.body, if_match=request.expected_version, key=request.idempotency_key
    )
    return answer_of(service, view, version=view.version)


# -- incidents


async def open_incident(request: RequestContext[IncidentRequest]) -> Answer[IncidentView]:
    service = request.services.notifications
    incident, is_new = await service.open_incident(request.body, key=request.idempotency_key)
    return answer_of(service, incident, location=f"/v1/incidents/{incident.incident_id}" if is_new else None)


_EXAMPLE: dict[str, Any] = {
    "event_id": "evt-51",
    "user_id": "u-3",
    "event_type": "MESSAGE",
    "priority_hint": "HIGH",
    "title": "Ana replied",
    "message": "See you at nine?",
    "source": "chat",
    "channels": ["push", "email"],
}
_CONDITIONAL = "`If-Match`, or `version` in the body, makes it conditional."

_notifications = ServiceRoutes(
    lambda request: request.services.notifications, TAG, read="notifications:read", write="notifications:write"
)

ROUTES = (
    _notifications.post(
        "/v1/notifications",
        send,
        "Send a notification",
        description="NOW, LATER with the instant it is judged again, or NEVER; durable "
        "before it is answered. The repeat of an event id is the first decision as recorded.",
        query=Traced,
        batch=True,
        answer_many=send_many,
        key_field="event_id",
        example=_EXAMPLE,
    ),
    _notifications.post(
        "/v1/notifications/classify",
        Notifications.classify,
        "Evaluate a notification without sending it",
        scope="notifications:read",
    ),
    _notifications.get("/v1/notifications/{event_id}", Notifications.notification, "The status of a notification"),
    _notifications.post(
        "/v1/notifications/{event_id}/cancel",
        Notifications.cancel,
        "Cancel a waiting notification",
        codes=((409, "NOT_WAITING"),),
    ),
    _notifications.post(
        "/v1/notifications/{event_id}/release",
        Notifications.release,
        "Send a waiting notification now",
        codes=((409, "NOT_WAITING"),),
    ),
    _notifications.post(
        "/v1/notifications/batch-status",
        statuses,
        "The status of many notifications",
        scope="notifications:read",
        example={"event_ids": ["evt-51", "evt-52"]},
    ),
    _notifications.get(
        f"{USER}/notification-state", Notifications.notification_state, "A user's counters and waiting items"
    ),
    _notifications.get(
        f"{USER}/preferences",
        preferences,
        "A user's preferences",
        description="If they were never written, these are the defaults at version 0.",
    ),
    _notifications.put(
        f"{USER}/preferences",
        put_preferences,
        "Replace a user's preferences",
        description=_CONDITIONAL,
        read_only=PREFERENCES_READ_ONLY,
        codes=((412, "VERSION_MISMATCH"),),
    ),
    _notifications.patch(
        f"{USER}/preferences",
        patch_preferences,
        "Change a user's preferences",
        description=f"JSON Merge Patch: `null` restores a default. {_CONDITIONAL}",
        body=dict[str, Any],
        described_body=merge_patch("PreferencesPatch", PreferencesRequest),
        codes=((412, "VERSION_MISMATCH"),),
    ),
    _notifications.get(f"{USER}/inbox", Notifications.inbox, "In-app messages, newest first"),
    _notifications.post(
        f"{USER}/inbox/read", Notifications.mark_read, "Mark in-app messages as read", example={"all": True}
    ),
    _notifications.put(f"{USER}/ban", Notifications.ban, "Ban a user", body_optional=True),
    _notifications.delete(f"{USER}/ban", Notifications.unban, "Lift a ban"),
    _notifications.post(
        "/v1/incidents",
        open_incident,
        "Open an incident",
        description="For one user, or without `user_id` for the tenant. One that is open "
        "keeps its id and gets a later end: 200.",
        body_optional=True,
        status=201,
    ),
    _notifications.get("/v1/incidents", Notifications.incidents, "Open incidents, newest first"),
    _notifications.delete("/v1/incidents/{incident_id}", Notifications.close_incident, "Close an incident"),
)
