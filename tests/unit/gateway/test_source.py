import pytest
from pydantic import ValidationError

from gateway.settings import GatewaySettings
from gateway.source import Source, network_of, networks

PROXIES = "10.0.0.0/8, 192.168.7.7,2001:db8:1::/48"


def source(peer: str, forwarded: str | None, trusted: str = PROXIES) -> str:
    return Source(networks(trusted)).of(peer, None if forwarded is None else forwarded.encode("latin-1"))


@pytest.mark.parametrize("forwarded", [None, "", "203.0.113.9", "10.1.1.1, 10.2.2.2", "garbage"])
def test_without_trusted_proxies_the_peer_is_the_source_whatever_it_claims(forwarded: str | None):
    assert source("203.0.113.1", forwarded, trusted="") == "203.0.113.1"


@pytest.mark.parametrize("peer", ["203.0.113.1", "192.168.7.8", "11.0.0.1", "2001:db8:2::1"])
def test_a_peer_that_is_not_trusted_is_the_source_whatever_it_claims(peer: str):
    assert source(peer, "198.51.100.5") == peer


@pytest.mark.parametrize(
    ("forwarded", "expected"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("198.51.100.1, 203.0.113.9", "203.0.113.9"),
        ("10.9.9.9, 203.0.113.9", "203.0.113.9"),
        ("203.0.113.9, 10.9.9.9", "203.0.113.9"),
        ("1.1.1.1, 203.0.113.9, 10.9.9.9, 192.168.7.7", "203.0.113.9"),
        ("203.0.113.9:4711", "203.0.113.9"),
        ("2001:db8:9::5", "2001:db8:9::5"),
        ("2001:DB8:9:0:0:0:0:5", "2001:db8:9::5"),
        ("[2001:db8:9::5]", "2001:db8:9::5"),
        ("[2001:db8:9::5]:4711", "2001:db8:9::5"),
        ("203.0.113.9, [2001:db8:1::2]:4711", "203.0.113.9"),
        ("203.0.113.9, ::ffff:10.1.2.3", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("fe80::1%eth0", "fe80::1"),
        ("  203.0.113.9\t", "203.0.113.9"),
    ],
)
def test_behind_trusted_proxies_it_is_the_rightmost_address_that_is_not_theirs(forwarded: str, expected: str):
    assert source("10.0.0.1", forwarded) == expected


def test_where_all_are_trusted_it_is_the_leftmost():
    assert source("10.0.0.1", "10.3.3.3, 10.2.2.2") == "10.3.3.3"
    assert source("10.0.0.1", None) == "10.0.0.1"


@pytest.mark.parametrize(
    "garbage",
    ["", " ", "unknown", "_hidden", "1.2.3", "1.2.3.4.5", "::1::", "[::1", "a" * 30_000, "1" * 30_000, "é"],
)
def test_what_is_no_address_ends_the_search_at_the_last_one_that_is(garbage: str):
    assert source("10.0.0.1", garbage) == "10.0.0.1"
    assert source("10.0.0.1", f"203.0.113.9, {garbage}") == "10.0.0.1"
    assert source("10.0.0.1", f"{garbage}, 203.0.113.9") == "203.0.113.9"
    assert source("10.0.0.1", f"203.0.113.9, {garbage}, 10.2.2.2") == "10.2.2.2"


def test_a_very_long_list_is_read_from_its_right_end_only():
    assert source("10.0.0.1", "203.0.113.9," + ",".join(["10.2.2.2"] * 5_000)) == "10.2.2.2"
    assert source("10.0.0.1", ",".join(["10.2.2.2"] * 5_000) + ",203.0.113.9") == "203.0.113.9"


@pytest.mark.parametrize("peer", ["", "/run/grove.sock", "testclient"])
def test_a_peer_without_an_address_is_nowhere(peer: str):
    assert source(peer, "203.0.113.9") == ""


def test_a_peer_is_trusted_in_either_way_of_writing_it():
    assert source("::ffff:10.0.0.1", "203.0.113.9") == "203.0.113.9"


def test_a_source_is_short_whatever_was_sent():
    longest = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
    for text in (longest, f"{longest}%{'z' * 5_000}", f"[{longest}]:{'9' * 5_000}"):
        assert source("10.0.0.1", text) == longest


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:9:8:7:6:5:4", "2001:db8:9:8::/64"),
        ("::1", "::/64"),
        ("", ""),
    ],
)
def test_an_ipv6_address_is_counted_as_the_network_of_whoever_has_it(address: str, counted: str):
    assert network_of(address) == counted


@pytest.mark.parametrize("text", ["10.0.0.1/8", "10.0.0.0/33", "proxy.example", "*", "10.0.0.0/8;::1"])
def test_a_mistyped_network_is_refused_at_the_start(text: str):
    with pytest.raises(ValidationError, match="trusted_proxies"):
        GatewaySettings(trusted_proxies=text)
