"""Hostile URLs at the client that calls webhooks: whatever they say, nothing is connected to but public addresses.

URLs are put together at random from parts that parsers are known to read differently, and names are resolved by a
resolver that changes its mind. The judge is the interpreter itself: an audit hook sees every address a socket is about
to be connected to, and refuses all of them, so that nothing leaves the machine.
"""

from __future__ import annotations

import asyncio
import ipaddress
import sys
from random import Random
from typing import Any
from urllib.parse import quote

from betimes.outbound.failures import WebhookFailed
from betimes.outbound.settings import WebhookSettings
from tests.outbound.receivers import webhooks
from tests.soak.rounds import Order, Round

PRIVATE = (
    "127.0.0.1",
    "127.8.9.1",
    "10.0.0.1",
    "172.16.5.4",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.9",
    "0.0.0.0",
    "168.63.129.16",
    "224.0.0.1",
    "255.255.255.255",
    "192.0.2.1",
    "198.18.0.1",
)
PRIVATE_V6 = (
    "::1",
    "::",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "64:ff9b:1::1",
    "2001:db8::1",
    "fe80::1%25eth0",
    "2606:4700::5efe:10.0.0.1",
)
PUBLIC = ("8.8.8.8", "93.184.215.14", "2606:4700::1111")
NAMES = (
    "localhost",
    "localhost.",
    "crm.example",
    "turning.example",
    "mixed.example",
    "metadata.google.internal",
    "127.0.0.1.nip.example",
    "ⓛocalhost",
    "①②⑦.⓪.⓪.①",
    "１２７.0.0.1",
    "127。0。0。1",
    "xn--fa-hia.example",
)
SCHEMES = (
    "https://",
    "http://",
    "https:",
    "https:/",
    "https:///",
    "HTTPS://",
    "https:\\\\",
    "ftp://",
    "file://",
    "gopher://",
    "//",
    "https://https://",
    "\thttps://",
    "ht\ntps://",
)
LOGINS = ("", "", "", "a@", "a:b@", "8.8.8.8@", "8.8.8.8#@", "8.8.8.8%2540", "8.8.8.8\\@", "@", "%40")
PORTS = (
    "",
    "",
    ":443",
    ":80",
    ":0",
    ":65536",
    ":-1",
    ":22",
    ":",
    ":443:80",
    ":٤٤٣",
    ":0x1bb",
    ":443@8.8.8.8",
    ":65535",
)
TAILS = (
    "",
    "/",
    "/hook",
    "/..;/",
    "?@8.8.8.8/",
    "#@8.8.8.8/",
    "/%0d%0aHost:%20x",
    "\\@8.8.8.8",
    "/\u2028x",
    "/?u=[",
    "/#",
)
UNWANTED = ("8.8.8.8/", "[", "]", "%00", "%", " ", "\u200b", "\x00", "\r\nX: y", "é", "\ud800")

STRICT = WebhookSettings(allow_http=True)


def hostile_url(dice: Random) -> str:
    url = dice.choice(SCHEMES[:2] if dice.random() < 0.7 else SCHEMES)
    url += dice.choice(LOGINS) + _host(dice) + dice.choice(PORTS) + dice.choice(TAILS)
    if dice.random() < 0.1:
        place = dice.randrange(len(url))
        url = url[:place] + dice.choice(UNWANTED) + url[place:]
    return url


def _host(dice: Random) -> str:
    chance = dice.random()
    if chance < 0.25:
        return dice.choice(NAMES)
    if chance < 0.5:
        inner = dice.choice(PRIVATE_V6)
        return f"[{inner}]" if dice.random() < 0.8 else dice.choice((inner, f"[{inner}", f"{inner}]", f"[[{inner}]]"))
    if chance < 0.55:
        return dice.choice(PUBLIC[:2])
    return _spell(ipaddress.IPv4Address(dice.choice(PRIVATE)), dice)


def _spell(address: ipaddress.IPv4Address, dice: Random) -> str:
    """Return one of the ways in which some program reads this address."""
    number, parts = int(address), [*address.packed]
    spellings = (
        str(address),
        str(number),
        hex(number),
        oct(number),
        f"0{number:o}",
        f"{number + 2**32}",
        ".".join(map(hex, parts)),
        ".".join(f"0{part:o}" for part in parts),
        ".".join(f"{part:03}" for part in parts),
        f"{parts[0]}.{int.from_bytes(address.packed[1:])}",
        f"{parts[0]}.{parts[1]}.{parts[2] * 256 + parts[3]}",
        f"{address}.",
        f"{address}..",
        quote(str(address)).replace(".", "%2e"),
        f"[{address}]",
        f"[::ffff:{address}]",
        f"[::ffff:{number >> 16:x}:{number & 0xFFFF:x}]",
        f"[0:0:0:0:0:ffff:{address}]",
        f" {address}",
        f"{address}%00",
        f"{address}:80#",
        str(address).replace(".", "\uff0e"),
    )
    return dice.choice(spellings)


class Watch:
    """Notes every address that a socket was to be connected to, and lets none through."""

    def __init__(self) -> None:
        self.tried: list[str] = []
        self.is_on = False
        sys.addaudithook(self._heard)

    def _heard(self, event: str, details: tuple[Any, ...]) -> None:
        if self.is_on and event == "socket.connect" and isinstance(details[1], tuple):
            self.tried.append(str(details[1][0]))
            raise ConnectionRefusedError("nothing leaves this machine")


def is_public(address: str) -> bool:
    """Judge by what the standard library knows of addresses, not by our own table."""
    found = ipaddress.ip_address(address.partition("%")[0])
    inner = getattr(found, "ipv4_mapped", None) or getattr(found, "sixtofour", None)
    return found.is_global and not found.is_multicast and (inner is None or inner.is_global)


def call_hostile_urls(order: Order, settings: WebhookSettings = STRICT) -> Round:
    """Call webhooks at hostile URLs; nothing may be tried but public addresses, and every failure must be typed."""
    dice, watch = Random(order.seed), Watch()
    tried, refused, findings = 0, 0, list[str]()

    async def resolve(host: str, port: int) -> list[str]:
        if dice.random() < 0.1:
            raise OSError("no such name")
        pool = (*PRIVATE, *PUBLIC) if dice.random() < 0.5 else (*PUBLIC, *(v6.partition("%")[0] for v6 in PRIVATE_V6))
        return [dice.choice(PUBLIC if dice.random() < 0.4 else pool) for _ in range(dice.randint(1, 3))]

    async def call() -> None:
        nonlocal tried, refused
        async with webhooks(settings, resolve=resolve) as client:
            watch.is_on = True
            for _ in range(order.count):
                url = hostile_url(dice)
                watch.tried.clear()
                try:
                    await client.post(url, b"{}", id="one", tenant="acme", timeout_s=10)
                    findings.append(f"{url!r} was answered")
                except WebhookFailed:
                    refused += not watch.tried
                except Exception as error:  # noqa: BLE001 — this is what is looked for
                    findings.append(f"{url!r}: {error!r} is not typed")
                tried += bool(watch.tried)
                findings.extend(f"{url!r}: {address} was tried" for address in watch.tried if not is_public(address))
            watch.is_on = False

    asyncio.run(call())
    return Round(order.count, findings, {"refused": refused, "led to a public address": tried})
