"""Secrets at rest: encrypted under keys that can be replaced, in files for their owner alone."""

from __future__ import annotations

import stat
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from standardwebhooks.webhooks import Webhook

from betimes.app.at_rest import at_rest_warnings
from betimes.app.betimes import Betimes
from betimes.app.bootstrap import without_secrets
from betimes.app.configuration import parse_configuration
from betimes.app.deployment import EncryptionSettings
from betimes.app.settings import Settings
from betimes.core.errors import Invalid, Refused, Unavailable
from betimes.engine.replay import verify
from betimes.outbound.settings import WebhookSettings
from tests.outbound.receivers import receiver

OLD, NEW = (b64encode(bytes([number]) * 32).decode() for number in (1, 2))
SENSOR = {"sensor_id": "orders", "sensor_type": "push", "auth": "signature", "target": {"kind": "sweep"}}
LOOPBACK = WebhookSettings(allow_http=True, allow_networks=("127.0.0.0/8",))


@asynccontextmanager
async def opened(path: Path, *keys: str) -> AsyncIterator[Betimes]:
    settings = Settings(encryption=EncryptionSettings(keys=keys), webhooks=LOOPBACK)
    async with Betimes(f"sqlite:///{path}", workers=False, settings=settings) as bt:
        yield bt


def signed(secret: str, body: bytes) -> dict[str, str]:
    now = datetime.now(UTC)
    return {
        "webhook-id": "m-1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign("m-1", now, body.decode()),
    }


async def is_accepted(bt: Betimes, secret: str) -> bool:
    body = b'{"data": 1}'
    try:
        await bt.sensors.demand_proof("orders", signed(secret, body), body)
    except Refused:
        return False
    return True


def everything_in(path: Path) -> str:
    """Every value of every table."""
    connection = apsw.Connection(str(path))
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return repr([list(connection.execute(f'SELECT * FROM "{name}"')) for name in tables])


async def test_secrets_are_nowhere_in_the_database_and_still_sign_and_verify(tmp_path: Path) -> None:
    path = tmp_path / "betimes.db"
    async with opened(path, OLD) as bt:
        sensor = await bt.sensors.create(SENSOR)
        rotated = await bt.mine.tenants.rotate_webhook_secret({"overlap_s": 60})
        assert sensor.secret
        assert rotated.secret
        assert await is_accepted(bt, sensor.secret)
        again = await bt.sensors.rotate_secret("orders")
        assert again.secret
        assert await is_accepted(bt, sensor.secret)
        assert await is_accepted(bt, again.secret)
        assert not await is_accepted(bt, "whsec_" + b64encode(b"another").decode())
        async with receiver() as here:
            await bt.schedules.create(
                {"schedule_id": "s", "cron": "0 0 1 1 *", "target": {"kind": "webhook", "url": here.url}}
            )
            await bt.schedules.trigger("s")
            await bt.tick()
            [(headers, body)] = here.requests
            Webhook(rotated.secret).verify(body, {name.lower(): value for name, value in headers.items()})
        assert (await verify(bt.engine.store, bt.engine.kinds)).is_sound
        kept = everything_in(path)
    assert not [secret for secret in (sensor.secret, again.secret, rotated.secret) if secret in kept]
    assert "whsec_" not in kept
    assert "sealed:" in kept


async def test_keys_are_replaced_without_anybody_noticing(tmp_path: Path) -> None:
    path = tmp_path / "betimes.db"
    async with opened(path) as bt:
        secret = (await bt.sensors.create(SENSOR)).secret or ""
        await bt.mine.tenants.rotate_webhook_secret({})
        signing = await bt._secrets("default")
    async with opened(path, OLD) as bt:
        assert await is_accepted(bt, secret)
        report = await bt.reseal_secrets()
        assert (report.resealed, report.current, report.unreadable) == (3, 0, [])
    async with opened(path, NEW, OLD) as bt:
        assert await is_accepted(bt, secret)
        assert (await bt.reseal_secrets()).resealed == 3
        assert (await bt.reseal_secrets()).current == 3
    async with opened(path, NEW) as bt:
        assert await is_accepted(bt, secret)
        assert await bt._secrets("default") == signing


async def test_a_secret_whose_key_is_gone_is_told_and_nothing_else_stops(tmp_path: Path) -> None:
    path = tmp_path / "betimes.db"
    async with opened(path, OLD) as bt:
        secret = (await bt.sensors.create(SENSOR)).secret or ""
    for keys in ((), (NEW,)):
        async with opened(path, *keys) as bt:
            with pytest.raises(Unavailable, match=r"encryption\.keys"):
                await is_accepted(bt, secret)
            assert [one.sensor_id for one in (await bt.sensors.list()).items] == ["orders"]
            assert sorted((await bt.reseal_secrets()).unreadable) == ["*/tenant/*", "default/sensor/orders"]


async def test_a_secret_copied_into_another_row_cannot_be_read(tmp_path: Path) -> None:
    async with opened(tmp_path / "betimes.db", OLD) as bt:
        box = bt._deployment.box
        one, other = bt.sensors.stream("sensor", "one"), bt.sensors.stream("sensor", "other")
        sealed = box.seal("whsec_x", one)
        assert box.open(sealed, one) == "whsec_x"
        with pytest.raises(Unavailable, match="changed or copied"):
            box.open(sealed, other)


async def test_the_ledger_and_the_configuration_show_neither_secrets_nor_keys(tmp_path: Path) -> None:
    from tests.http.served import site

    settings = Settings(encryption=EncryptionSettings(keys=(OLD,)))
    async with site(settings=settings) as s:
        await s.client("POST", "/v1/sensors", SENSOR)
        await s.client("POST", "/v1/webhook-secret/rotate", {})
        await s.bt.reseal_secrets()
        for path in ("/v1/ledger", "/v1/sensors", "/v1/sensors/orders", "/v1/ledger?kind=tenant"):
            raw = (await s.client("GET", path)).raw
            assert b"sealed:" not in raw
            assert b"whsec_" not in raw
    shown: dict[str, Any] = without_secrets(parse_configuration({"encryption": {"keys": [OLD, NEW]}}))
    assert shown["encryption"]["keys"] == ["…", "…"]


def test_a_key_that_is_none_is_refused_by_its_place_without_being_shown() -> None:
    for wrong in ("short", b64encode(b"x" * 31).decode(), "*" * 44):
        with pytest.raises(Invalid) as refused:
            parse_configuration({"encryption": {"keys": [OLD, wrong]}})
        assert "keys[1]" in str(refused.value)
        assert wrong not in str(refused.value)


async def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "betimes.db"
    async with opened(path):
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in list(tmp_path.glob("*"))}  # noqa: ASYNC240 — a folder of three files
        assert modes == {"betimes.db": 0o600, "betimes.db-wal": 0o600, "betimes.db-shm": 0o600}
    url, with_key = f"sqlite:///{path}", EncryptionSettings(keys=(OLD,))
    assert list(at_rest_warnings(url, with_key)) == []
    path.chmod(0o644)
    async with opened(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
    [mode] = at_rest_warnings(url, with_key)
    assert "644" in mode
    assert len(list(at_rest_warnings(url, EncryptionSettings()))) == 2
