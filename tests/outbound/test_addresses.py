"""Which addresses may be called."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.outbound.addresses import FORBIDDEN, AddressRules

NOTHING_ALLOWED = AddressRules()

REFUSED = {
    "0.0.0.0": "unspecified",
    "10.1.2.3": "private",
    "100.64.0.1": "carrier-grade NAT",
    "100.100.100.200": "carrier-grade NAT",
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "168.63.129.16": "cloud metadata",
    "169.254.169.254": "link-local",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.192": "reserved",
    "192.0.2.1": "documentation",
    "192.168.1.1": "private",
    "198.19.0.1": "benchmarking",
    "224.0.0.1": "multicast",
    "255.255.255.255": "reserved",
    "::": "unspecified",
    "::1": "loopback",
    "::127.0.0.1": "loopback",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:a9fe:a9fe": "link-local",
    "64:ff9b::10.0.0.1": "private",
    "64:ff9b:1::8.8.8.8": "private NAT64",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2": "reserved",
    "2001:db8::1": "documentation",
    "2002:7f00:1::": "loopback",
    "2002:a9fe:a9fe::1": "link-local",
    "2606:4700::5efe:10.0.0.1": "private",
    "fd00:ec2::254": "private",
    "fe80::1": "link-local",
    "fe80::1%eth0": "link-local",
    "ff02::1": "multicast",
    "100::1": "not public",
    "4000::1": "not public",
    "localhost": "not an address",
}
ALLOWED = [
    "8.8.8.8",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "168.63.129.17",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2002:808:808::1",
]


@pytest.mark.parametrize(("address", "reason"), REFUSED.items())
def test_an_address_that_is_not_public_is_refused_with_its_reason(address: str, reason: str) -> None:
    assert NOTHING_ALLOWED.refusal("crm.example", address) == reason


@pytest.mark.parametrize("address", ALLOWED)
def test_a_public_address_may_be_called(address: str) -> None:
    assert NOTHING_ALLOWED.refusal("crm.example", address) is None


def test_a_network_can_be_allowed_and_nothing_beside_it() -> None:
    rules = AddressRules(networks=["10.1.0.0/16", "fd12::/16"])
    assert rules.refusal("crm", "10.1.255.255") is None
    assert rules.refusal("crm", "::ffff:10.1.0.1") is None
    assert rules.refusal("crm", "fd12::1") is None
    assert rules.refusal("crm", "10.2.0.0") == "private"
    assert rules.refusal("crm", "fd13::1") == "private"


def test_a_host_can_be_allowed_whatever_its_address_and_however_it_is_spelt() -> None:
    rules = AddressRules(hosts=["CRM.internal"])
    assert rules.refusal("crm.internal", "10.0.0.1") is None
    assert rules.refusal("crm.INTERNAL.", "10.0.0.1") is None
    assert rules.refusal("evil.crm.internal", "10.0.0.1") == "private"
    assert rules.refusal("crm.internal.evil", "10.0.0.1") == "private"


@given(st.ip_addresses(v=4))
def test_no_form_of_an_address_is_judged_more_kindly_than_the_address(address: ipaddress.IPv4Address) -> None:
    reason = NOTHING_ALLOWED.refusal("crm", str(address))
    packed = int(address)
    forms = (
        (0xFFFF << 32) | packed,
        (0x64_FF9B << 96) | packed,
        (0x2002 << 112) | (packed << 80),
        (0x2606_4700 << 96) | (0x5EFE << 32) | packed,
    )
    for form in forms:
        assert NOTHING_ALLOWED.refusal("crm", str(ipaddress.IPv6Address(form))) == reason


@given(st.data())
def test_every_address_of_a_forbidden_network_is_refused(data: st.DataObject) -> None:
    network, _ = data.draw(st.sampled_from(FORBIDDEN))
    place = data.draw(st.integers(0, network.num_addresses - 1))
    assert NOTHING_ALLOWED.refusal("crm", str(network[place])) is not None
