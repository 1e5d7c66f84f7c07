"""Ports."""

import random
import socket

import pytest

from service_kit.embedded.errors import REFUSED, LaunchError
from service_kit.embedded.ports import HOST, free_ports, require_free


def test_a_port_somebody_listens_on_is_refused_with_a_remedy():
    with socket.create_server((HOST, 0)) as taken:
        port = int(taken.getsockname()[1])
        with pytest.raises(LaunchError, match=f"port {port} is taken by another program") as refusal:
            require_free(port)
    assert (refusal.value.remedy, refusal.value.code) == ("set GROVE_PORT to another port", REFUSED)
    require_free(port)


def test_free_ports_are_different_and_can_be_listened_on():
    found = free_ports(10)
    assert len(set(found)) == 10
    for port in found:
        require_free(port)


def test_a_port_is_given_out_once_though_nobody_listens_on_it_yet(monkeypatch: pytest.MonkeyPatch):
    chosen = free_ports(1)[0]

    def again(self: random.SystemRandom, *bounds: int) -> int:
        return chosen

    monkeypatch.setattr(random.SystemRandom, "randrange", again)
    assert chosen not in free_ports(3)
    assert chosen not in free_ports(3, besides=chosen)
    assert chosen + 10 not in free_ports(10, besides=chosen + 10)
