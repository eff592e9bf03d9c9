"""URLs are read by the parser that connects, at every door that saves one; whatever is saved can be listed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from betimes.app import Betimes
from betimes.app.configuration import parse_configuration
from betimes.app.routes import ROUTES
from betimes.app.settings import Settings
from betimes.core.errors import Invalid
from betimes.outbound.settings import WebhookSettings
from tests.http.populated import ask
from tests.http.served import Client, Reply, site

UNREADABLE = (
    "[::1:18780",
    "[::1",
    "::1]",
    "[]",
    "[::1]]",
    "[:::1]",
    "[g::1]",
    "[1.2.3.4]",
    "[::ffff:999.1.1.1]",
    "[::1]x",
    "",
    ":80",
    "@",
    "u@h",
    "u:p@h",
    ":p@h",
    "u:@h",
    "%5b::1%5d:80:80",
    "h:0",
    "h:65536",
    "h:99999999999",
    "h:-1",
    "h:x",
    "h:8 0",
    "127.1",
    "1",
    "0",
    "2130706433",
    "017700000001",
    "0x7f.1.2.3:x",
    "1.2.3",
    "1.2.3.4.5",
    "256.1.1.1",
    "1.2.3.4567",
    "a b",
    "a\tb",
    "a\nb",
    "a\r\nb",
    "a\0b",
    "a\u2028b",
    "a\u202eb",
    "a<b",
    "a>b",
    "a|b",
    "a^b",
    "a..b",
    ".a",
    "x" * 64,
    f"{'x' * 60}." * 5,
    "a\\b",
    "\\",
    "xn--\u0080",
    "a\ud7ff\ue000",
    "\u200b",
    "a\u00ad\u200d..b",
    "a[b",
    "a]b",
    "[a]b[c]",
)
FORBIDDEN = (
    "127.0.0.1",
    "127.0.0.1:18780",
    "[::1]",
    "[::1]:18780",
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "192.168.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fc00::1]",
    "[ff02::1]",
    "[2001:db8::1]",
    "[::127.0.0.1]",
    "localhost",
    "localhost:8080",
    "LOCALHOST",
    "a.localhost",
)
PUBLIC = (
    "crm.example",
    "crm.example:8443",
    "CRM.EXAMPLE",
    "crm.example.",
    "8.8.8.8",
    "[2606:4700::1111]",
    "bücher.example",
    "xn--bcher-kva.example",
    "a-b.example",
    "a_b.example",
    "0x7f.example",
)
ENDINGS = ("/x", "", "?a=1", "/%2e%2e/x", "/#f")
URLS = {
    f"{scheme}://{host}{ending}": host
    for hosts in (UNREADABLE, FORBIDDEN, PUBLIC)
    for number, host in enumerate(hosts)
    for scheme in ("http", "https")
    for ending in {ENDINGS[number % len(ENDINGS)], "/x"}
}
OTHERS = (
    "ftp://crm.example/x",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "//crm.example/x",
    "https:/x",
    f"https://h/{'x' * 2_000}",
)
READABLE = "https://crm.example/old"

Door = Callable[[Client, str, str], Awaitable[Reply]]


def _hook(url: str) -> dict[str, Any]:
    return {"kind": "webhook", "url": url}


async def _schedule(client: Client, name: str, url: str) -> Reply:
    return await client("PUT", f"/v1/schedules/{name}", {"cron": "0 7 * * *", "target": _hook(url)})


async def _patched_schedule(client: Client, name: str, url: str) -> Reply:
    await _schedule(client, "patched", READABLE)
    return await client("PATCH", "/v1/schedules/patched", {"target": {"url": url}})


async def _sensor(client: Client, name: str, url: str) -> Reply:
    return await client("PUT", f"/v1/sensors/t{name}", {"sensor_type": "push", "target": _hook(url)})


async def _evaluator(client: Client, name: str, url: str) -> Reply:
    body = {"sensor_type": "poll", "target": {"kind": "sweep"}, "evaluator": _hook(url)}
    return await client("PUT", f"/v1/sensors/e{name}", body)


async def _allowed(client: Client, name: str, url: str) -> Reply:
    body = {
        "sensor_type": "poll",
        "target": {"kind": "sweep"},
        "evaluator": _hook(READABLE),
        "allowed_targets": [_hook(url)],
    }
    return await client("PUT", f"/v1/sensors/a{name}", body)


async def _registry(client: Client, name: str, url: str) -> Reply:
    entry = {"trigger_type": "OURS", "debounce_seconds": 0, "cooldown_seconds": 0, "handler": _hook(url)}
    return await client("PUT", "/v1/registry", {"entries": [entry]})


async def _policy(client: Client, name: str, url: str) -> Reply:
    return await client("PUT", "/v1/policy", {"overrides": {"hooks": [{"on": ["RUN_DECISION"], "target": _hook(url)}]}})


DOORS: dict[Door, str] = {
    _schedule: "target.url",
    _patched_schedule: "target.url",
    _sensor: "target.url",
    _evaluator: "evaluator.url",
    _allowed: "allowed_targets[0].url",
    _registry: "entries[0].handler.url",
    _policy: "overrides.hooks[0].target.url",
}


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__[1:])
async def test_every_door_refuses_urls_that_cannot_be_called_and_warns_of_those_it_would_not_call(door: Door) -> None:
    async with site() as s:
        # one table for all doors, and all of it at the cheapest: they share the check
        for number, (url, host) in enumerate(list(URLS.items())[:: 1 if door is _sensor else 9]):
            reply = await door(s.client, f"n{number}", url)
            if host in UNREADABLE:
                assert reply.status == 422, (url, reply.raw)
                assert [error["path"] for error in reply.json["errors"]] == [DOORS[door]], url
                continue
            assert reply.status in (200, 201), (url, reply.raw)
            warned = [told["message"] for told in reply.json["warnings"] if told["path"] == DOORS[door]]
            allowing = "allow_http" if url.startswith("http:") else "allow_networks"
            assert bool(warned) == (host in FORBIDDEN or url.startswith("http:")), (url, warned)
            assert all(allowing in told for told in warned), (url, warned)
        for url in OTHERS:
            assert (await door(s.client, "other", url)).status == 422, url


async def test_what_the_settings_allow_is_saved_without_a_warning() -> None:
    webhooks = WebhookSettings(allow_http=True, allow_networks=("127.0.0.0/8",))
    async with site(settings=Settings(webhooks=webhooks)) as s:
        for door in DOORS:
            assert (await door(s.client, "one", "http://127.0.0.1:9/x")).json["warnings"] == []


async def test_every_list_shows_what_hostile_urls_led_to() -> None:
    lists = [route.path for route in ROUTES if route.method == "GET" and "{" not in route.path]
    async with site() as s:
        for number, (url, host) in enumerate(list(URLS.items())[::4]):
            if host not in UNREADABLE and (await _schedule(s.client, f"n{number}", url)).status == 201:
                assert (await s.client("POST", f"/v1/schedules/n{number}/trigger", {})).status == 200
        for path in lists:
            if path not in ("/v1/verdicts/stream", "/v1/clock", "/v1/sessions/current", "/metrics"):
                assert (await s.client("GET", ask(path))).status == 200, path


async def test_effects_and_definitions_saved_before_urls_were_checked_are_still_shown_and_can_be_changed() -> None:
    bad = "http://[::1:18780/x"
    async with site() as s:
        services = s.bt.mine
        services.schedules.deployment = type(services.schedules.deployment)()  # as it was: nobody looked
        await services.schedules.put("old", {"cron": "0 7 * * *", "target": _hook(bad)})
        await s.client("POST", "/v1/schedules/old/trigger", {})
        [effect] = [
            one for one in (await s.client("GET", "/v1/effects")).json["items"] if one["effect_kind"] == "webhook"
        ]
        assert (await s.client("GET", f"/v1/effects/{effect['effect_id']}")).status == 200
        kept = await s.client("PATCH", "/v1/schedules/old", {"cron": "0 8 * * *"})
        assert kept.status == 200
        assert [told["path"] for told in kept.json["warnings"]] == ["target.url"]
        assert (await s.client("PATCH", "/v1/schedules/old", {"target": {"url": bad + "y"}})).status == 422


async def test_policy_check_says_what_putting_the_policy_would() -> None:
    def hooks(url: str) -> dict[str, Any]:
        return {"overrides": {"hooks": [{"on": ["RUN_DECISION"], "target": _hook(url)}]}}

    async with site() as s:
        refused = (await s.client("POST", "/v1/policy/check", hooks("http://[::1:18780/x"))).json
        assert not refused["valid"]
        assert [error["path"] for error in refused["errors"]] == ["overrides.hooks[0].target.url"]
        warned = (await s.client("POST", "/v1/policy/check", hooks("http://10.0.0.1/x"))).json
        assert warned["valid"]
        assert [told["path"] for told in warned["warnings"]] == ["overrides.hooks[0].target.url"]


async def test_the_deployments_policy_and_configuration_are_refused_with_the_setting_that_has_the_url() -> None:
    bad, policy = "https://[::1:8/x", {"hooks": [{"on": ["GAME_OVER"], "target": _hook("https://[::1:8/x")}]}
    with pytest.raises(Invalid, match=r"hooks\[0\]\.target\.url"):
        async with Betimes("memory://", policy=policy, workers=False):
            pass
    async with Betimes("memory://", workers=False) as bt:
        with pytest.raises(Invalid, match=r"hooks\[0\]\.target\.url"):
            await bt.apply_policy(policy)
    channel = {"kind": "webhook", "url": bad}
    bodies: dict[str, dict[str, Any]] = {
        "policy.hooks[0].target.url": {"policy": policy},
        "channels.email.url": {"channels": {"email": channel}},
        "tenants.acme.channels.email.url": {"tenants": {"acme": {"channels": {"email": channel}}}},
        "enrichment.url": {"enrichment": {"url": bad}},
    }
    for path, body in bodies.items():
        with pytest.raises(Invalid) as refused:
            parse_configuration(body)
        assert [found for found, _ in refused.value.problems] == [path]
    parse_configuration({"channels": {"email": {"kind": "webhook", "url": "https://crm.example/{address}"}}})
