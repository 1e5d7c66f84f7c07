"""Where a request came from: the address of its peer or, behind proxies that are trusted, of the client.

uvicorn reads proxies' headers too, but takes whatever text stands there for an address, turns a mistyped
network into one that never matches, and knows no IPv4 address written as IPv6.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

__all__ = ["Networks", "Source", "network_of", "networks"]

Networks = Sequence[IPv4Network | IPv6Network]

FORWARDED: Final = b"x-forwarded-for"
_HOPS: Final = 32
"""Most proxies in a row; what a client wrote further left is nobody's business."""
_SUBSCRIBER: Final = 64
"""Bits of an IPv6 address that say whose it is; whoever has one address has all that begin with them."""


def networks(text: str) -> Networks:
    """Networks and addresses, separated by commas. ``ValueError`` for anything else."""
    return [ip_network(one.strip()) for one in text.split(",") if one.strip()]


def network_of(source: str) -> str:
    """What an address is counted as: itself, or the network of an IPv6 address."""
    address = _address(source)
    if isinstance(address, IPv6Address):
        return str(ip_network((int(address) >> _SUBSCRIBER << _SUBSCRIBER, _SUBSCRIBER)))
    return source


class Source:
    """Tells it, believing ``trusted`` proxies only."""

    def __init__(self, trusted: Networks) -> None:
        self._trusted: Networks = trusted

    def of(self, peer: str, forwarded: bytes | None) -> str:
        """The peer unless it is trusted, else the rightmost address of ``X-Forwarded-For`` that is not.

        What stands left of that was written by whoever sent the request. Where all are trusted it is the
        leftmost; what is no address ends the search at the last one that is. An address has at most 45
        characters; a peer without one (a socket file) is ``""``.
        """
        found = _address(peer)
        if found is None:
            return ""
        if not self._trusted or not self._trusts(found) or forwarded is None:
            return str(found)
        for text in reversed(forwarded.decode("latin-1").rsplit(",", _HOPS)[-_HOPS:]):
            address = _address(text)
            if address is None:
                break
            found = address
            if not self._trusts(found):
                break
        return str(found)

    def _trusts(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._trusted)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """An address, with or without a port; IPv4 written as IPv6 is IPv4."""
    text = text.strip()
    if text.startswith("["):
        text, closed, _ = text[1:].partition("]")
        text = text if closed else ""
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found
