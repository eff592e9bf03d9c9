"""Policy, keys, the webhook secret, and whose key this is, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from betimes.admin.service import NewKey
from betimes.domain.service import Caller
from tests.http.served import Client, Site, site

KEY = ["key_id", "name", "tenant", "scopes", "created_at", "expires_at", "revoked_at", "previous_expires_at"]
SLOW = {"intents": {"claim_lease_s": 600}}


async def _admin(s: Site, tenant: str = "acme") -> Client:
    made = await s.bt.for_caller(Caller(tenant)).tenants.create_key(NewKey(name="root", scopes=("admin",)))
    return s.with_key(made.secret or "")


# -- policy


async def test_a_hook_whose_target_names_what_the_policy_does_not_know_is_refused() -> None:
    async with site() as s:
        hook = {"on": ["GAME_OVER"], "target": {"kind": "trigger", "trigger_type": "NO_SUCH"}}
        refused = await s.client("PUT", "/v1/policy", {"overrides": {"hooks": [hook]}})
        assert (refused.status, refused.json["errors"][0]["path"]) == (422, "overrides.hooks[0].target.trigger_type")
        assert "SIGNAL_ARRIVED" in refused.json["errors"][0]["message"]
        registered = {
            "hooks": [hook],
            "runs": {"registry": {"NO_SUCH": {"debounce_seconds": 0, "cooldown_seconds": 0}}},
        }
        put = await s.client("PUT", "/v1/policy", {"overrides": registered})
        assert put.status == 200, put.json


async def test_overrides_are_put_and_shown_with_what_they_come_to() -> None:
    async with site() as s:
        before = await s.client("GET", "/v1/policy")
        assert list(before.json) == ["version", "fingerprint", "overrides", "effective", "updated_at"]
        assert (before.json["version"], before.json["overrides"], before.headers["etag"]) == (0, {}, '"0"')
        put = await s.client("PUT", "/v1/policy", {"overrides": SLOW})
        assert (put.status, put.json["version"], put.json["overrides"]) == (200, 1, SLOW)
        assert put.json["effective"]["intents"]["claim_lease_s"] == 600
        assert put.json["fingerprint"] != before.json["fingerprint"]
        assert put.json["updated_at"] == "2026-01-05T09:00:00Z"
        assert (await s.client("GET", "/v1/policy")).json | {"warnings": []} == put.json
        assert (await s.as_tenant("other")("GET", "/v1/policy")).json["version"] == 0


async def test_what_was_read_can_be_edited_and_put_back_unless_it_changed_since() -> None:
    async with site() as s:
        read = (await s.client("GET", "/v1/policy")).json
        put = await s.client("PUT", "/v1/policy", {**read, "overrides": SLOW})
        assert (put.status, put.headers["etag"]) == (200, '"1"')
        stale = await s.client("PUT", "/v1/policy", {**read, "overrides": {}})
        assert (stale.status, stale.json["code"]) == (412, "VERSION_MISMATCH")
        tagged = await s.client("PUT", "/v1/policy", {"overrides": {}}, if_match='"0"')
        assert (tagged.status, tagged.json["code"]) == (412, "VERSION_MISMATCH")
        assert (await s.client("PUT", "/v1/policy", {"overrides": {}}, if_match='"1"')).json["version"] == 2


async def test_a_policy_that_cannot_work_is_refused_with_every_path() -> None:
    wrong = {"overrides": {"intents": {"claim_lease_s": -1}, "moon": {}, "scores": {"colour": 1}}}
    async with site() as s:
        refused = await s.client("PUT", "/v1/policy", wrong)
        assert refused.status == 422
        paths = ["overrides.intents.claim_lease_s", "overrides.moon", "overrides.scores.colour"]
        assert sorted(error["path"] for error in refused.json["errors"]) == paths
        checked = await s.client("POST", "/v1/policy/check", wrong)
        assert (checked.status, checked.json["valid"], checked.json["fingerprint"]) == (200, False, None)
        assert sorted(error["path"] for error in checked.json["errors"]) == paths
        assert (await s.client("GET", "/v1/policy")).json["version"] == 0
        assert (await s.client("PUT", "/v1/policy", {})).json["errors"][0]["path"] == "overrides"


async def test_a_check_tells_what_would_change_and_changes_nothing() -> None:
    async with site() as s:
        checked = (await s.client("POST", "/v1/policy/check", {"overrides": SLOW})).json
        assert list(checked) == ["valid", "errors", "warnings", "fingerprint", "changes", "overrides"]
        [change] = checked["changes"]
        assert (change["path"], change["to"]) == ("intents.claim_lease_s", 600)
        assert isinstance(change["from"], int)
        assert (await s.client("GET", "/v1/policy")).json["version"] == 0
        put = await s.client("PUT", "/v1/policy", {"overrides": SLOW})
        assert put.json["fingerprint"] == checked["fingerprint"]


# -- keys


async def test_a_keys_secret_is_shown_once() -> None:
    async with site(dev=False) as s:
        admin = await _admin(s)
        asked = {"name": "crm", "scopes": ["runs:read"], "expires_at": "2026-02-01T00:00:00Z"}
        made = await admin("POST", "/v1/keys", asked, idempotency_key="one")
        assert (made.status, list(made.json)) == (201, [*KEY, "secret"])
        assert made.headers["location"] == f"/v1/keys/{made.json['key_id']}"
        assert (made.json["tenant"], made.json["scopes"]) == ("acme", ["runs:read"])
        assert (await s.with_key(made.json["secret"])("GET", "/v1/runs")).status == 200
        again = await admin("POST", "/v1/keys", asked, idempotency_key="one")
        assert (again.json["key_id"], again.json["secret"]) == (made.json["key_id"], None)
        assert again.headers["idempotency-replayed"] == "true"
        other = await admin("POST", "/v1/keys", {**asked, "name": "erp"}, idempotency_key="one")
        assert (other.status, other.json["code"]) == (409, "IDEMPOTENCY_CONFLICT")
        one = await admin("GET", f"/v1/keys/{made.json['key_id']}")
        assert list(one.json) == KEY
        assert "secret" not in one.raw.decode() + (await admin("GET", "/v1/keys")).raw.decode()


async def test_a_key_is_rotated_once_at_a_time_and_revoked_at_once() -> None:
    async with site(dev=False) as s:
        admin = await _admin(s)
        made = (await admin("POST", "/v1/keys", {"name": "crm", "scopes": ["runs:read"]})).json
        path = f"/v1/keys/{made['key_id']}"

        async def status(secret: str) -> int:
            return (await s.with_key(secret)("GET", "/v1/runs")).status

        rotated = await admin("POST", f"{path}/rotate", {"overlap_s": 60}, idempotency_key="r")
        assert (rotated.status, rotated.json["previous_expires_at"]) == (200, "2026-01-05T09:01:00Z")
        assert [await status(made["secret"]), await status(rotated.json["secret"])] == [200, 200]
        again = await admin("POST", f"{path}/rotate", {"overlap_s": 60}, idempotency_key="r")
        assert (again.status, again.json["secret"]) == (200, None)
        assert again.headers["idempotency-replayed"] == "true"
        busy = await admin("POST", f"{path}/rotate")
        assert (busy.status, busy.json["code"]) == (409, "ROTATION_IN_PROGRESS")
        assert (await admin("POST", f"{path}/rotate", {"overlap_s": 604_801})).status == 422
        assert (await admin("DELETE", path)).status == 204
        assert [await status(made["secret"]), await status(rotated.json["secret"])] == [401, 401]
        assert (await admin("GET", path)).json["revoked_at"] == "2026-01-05T09:00:00Z"
        for method, target in (("DELETE", path), ("POST", f"{path}/rotate"), ("GET", "/v1/keys/acme~nobody")):
            assert (await admin(method, target)).status == 404


async def test_keys_are_listed_newest_first_page_by_page() -> None:
    async with site(dev=False) as s:
        admin = await _admin(s)
        for name in ("a", "b", "c"):
            s.clock.advance(1)
            await admin("POST", "/v1/keys", {"name": name, "scopes": ["tick"]})
        first = (await admin("GET", "/v1/keys?limit=3")).json
        assert [key["name"] for key in first["items"]] == ["c", "b", "a"]
        rest = (await admin("GET", f"/v1/keys?limit=3&cursor={first['next_cursor']}")).json
        assert ([key["name"] for key in rest["items"]], rest["next_cursor"]) == (["root"], None)


async def test_a_key_that_makes_no_sense_is_refused_with_every_field() -> None:
    async with site() as s:
        bad = await s.client("POST", "/v1/keys", {"name": "", "scopes": ["moon"], "expires_at": "soon", "tenant": "x"})
        assert sorted(error["path"] for error in bad.json["errors"]) == ["expires_at", "name", "scopes[0]", "tenant"]
        assert (await s.client("POST", "/v1/keys", {"name": "x", "scopes": []})).status == 422
        past = {"name": "x", "scopes": ["runs:read"], "expires_at": "2026-01-05T09:00:00Z"}
        over = await s.client("POST", "/v1/keys", past)
        assert (over.status, over.json["errors"]) == (422, [{"path": "expires_at", "message": "must be in the future"}])
        assert [key["name"] for key in (await s.client("GET", "/v1/keys")).json["items"]] == []


async def test_administration_is_for_administrators_of_the_tenant() -> None:
    async with site(dev=False) as s:
        admin, other = await _admin(s), await _admin(s, "other")
        made = (await admin("POST", "/v1/keys", {"name": "crm", "scopes": ["runs:read"]})).json
        plain = s.with_key(made["secret"])
        asked: list[tuple[str, str, Any]] = [
            ("GET", "/v1/policy", None),
            ("PUT", "/v1/policy", {"overrides": {}}),
            ("GET", "/v1/keys", None),
            ("POST", "/v1/policy/check", {"overrides": {}}),
            ("POST", "/v1/keys", {"name": "x", "scopes": ["admin"]}),
            ("DELETE", f"/v1/keys/{made['key_id']}", None),
            ("POST", "/v1/webhook-secret/rotate", None),
        ]
        for method, path, body in asked:
            assert (await plain(method, path, body)).status == 403, path
        assert (await other("GET", f"/v1/keys/{made['key_id']}")).status == 404
        assert (await other("DELETE", f"/v1/keys/{made['key_id']}")).status == 404
        everybody = await _admin(s, "*")
        assert (await everybody("GET", "/v1/policy")).json["code"] == "TENANT_REQUIRED"


# -- the rest


async def test_the_webhook_secret_is_shown_once_and_the_old_one_signs_on_for_a_while() -> None:
    async with site() as s:
        first = await s.client("POST", "/v1/webhook-secret/rotate")
        second = await s.client("POST", "/v1/webhook-secret/rotate", {"overlap_s": 60}, idempotency_key="w")
        assert first.json["secret"].startswith("whsec_")
        assert second.json["secret"] != first.json["secret"]
        assert second.json["previous_expires_at"] == "2026-01-05T09:01:00Z"
        again = await s.client("POST", "/v1/webhook-secret/rotate", {"overlap_s": 60}, idempotency_key="w")
        assert (again.json["secret"], again.headers["idempotency-replayed"]) == (None, "true")


async def test_a_key_can_ask_whose_it_is() -> None:
    async with site(dev=False) as s:
        for tenant in ("acme", "*"):
            mine = (await (await _admin(s, tenant))("GET", "/v1/whoami")).json
            assert list(mine) == ["tenant", "key_id", "name", "scopes", "expires_at", "hold"]
            assert (mine["tenant"], mine["name"], mine["scopes"]) == (tenant, "root", ["admin"])
            assert mine["key_id"].startswith(f"{tenant}~")
        assert (await s.client("GET", "/v1/whoami")).status == 401


async def test_a_reveal_of_texts_is_logged_with_who_and_where(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "betimes.audit")
    async with site() as s:
        place = "/console/why/inbox%3Aana%3A3"
        assert (await s.client("GET", "/v1/whoami", betimes_reveal=place)).status == 200
        assert (await s.client("GET", "/v1/whoami")).status == 200
    [line] = [record.getMessage() for record in caplog.records]
    assert line.endswith(f"at {place}")
    assert "dev (no key) of" in line
