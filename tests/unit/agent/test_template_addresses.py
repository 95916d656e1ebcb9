"""Templates of a node's addresses give what go-sockaddr gives on the same node.

`sockaddr-neighbours.json`: the addresses of a node with three interfaces, and templates with what
go-sockaddr 1.0.7 answered there; null is an error.
"""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path

import pytest

from agent.templates.addresses import NodeAddress, evaluated, node_addresses
from orchgit.errors import InvalidInputError

GOLDEN = Path(__file__).parents[2] / "golden"
NEIGHBOURS = json.loads((GOLDEN / "sockaddr-neighbours.json").read_text(encoding="utf-8"))
NODE = [
    NodeAddress(
        each["interface"],
        ipaddress.ip_interface(each["address"]),
        frozenset(each["flags"]),
        each["is_default"],
    )
    for each in NEIGHBOURS["addresses"]
]


def answer(text: str, known: list[NodeAddress] = NODE) -> str | None:
    try:
        return evaluated(text, known)
    except InvalidInputError:
        return None


def test_templates_give_what_they_give_on_nomad() -> None:
    answers = NEIGHBOURS["answers"]
    assert {text: answer(text) for text in answers} == answers


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('GetAllInterfaces | include "name" "("', "missing closing"),
        ('GetAllInterfaces | include "port" "80" | unique "size"', "unsupported unique constraint"),
        ('GetAllInterfaces | limit 0 | math "size" "+1"', "unsupported math operation"),
        ("GetAllInterfaces | limit -1", "must not be negative"),
        ('GetAllInterfaces | include "rfc" "9999"', "unsupported RFC 9999"),
        ('GetAllInterfaces | include "network" "x"', "unable to create an IP address"),
        ('GetAllInterfaces | sort "--name"', "unknown sort type"),
    ],
)
def test_mistake_is_told_also_where_no_address_is_left(text: str, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        evaluated(text, NODE)


def test_node_without_a_default_route_has_no_default_interface() -> None:
    with pytest.raises(InvalidInputError, match="No default interface found"):
        evaluated("GetDefaultInterfaces", NODE[:1])


def test_first_address_of_a_network_of_version_6_is_found() -> None:
    """The reference loses the zeros in front of its bytes."""
    text = 'GetAllInterfaces | include "network" "fc00::/7" | math "network" "+0" | attr "string"'
    assert answer(text) == "fd12::/64"


def test_addresses_of_this_machine_are_read() -> None:
    loopback = [each for each in node_addresses() if each.interface == "lo"]
    assert "127.0.0.1/8" in {str(each.address) for each in loopback}
    assert all("loopback" in each.flags for each in loopback)
