"""Addresses that are templates, and several addresses of HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from starlette.responses import PlainTextResponse

from orchgit.configuration.addresses import addresses_of_machine, is_host
from orchgit.configuration.file import Listen, ReadConfig, read_config
from orchgit.errors import InvalidInputError
from orchgit.host_port import split_host_port
from orchgit.server.http.access import HttpAccess
from orchgit.server.http.server import HttpServer
from tests.support.http_listener import listening, on_uvloop

LOOPBACK = (
    r"{{ GetAllInterfaces | include \"name\" \"^lo$\" | include \"type\" \"ipv4\""
    r" | attr \"address\" }}"
)
NO_PORTS = (None, None, None)


def read(tmp_path: Path, text: str) -> ReadConfig:
    path = tmp_path / "agent.hcl"
    path.write_text(text)
    return read_config(path)


def test_templates_of_addresses_are_evaluated(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        f'bind_addr = "{LOOPBACK}"\n'
        f'addresses {{ rpc = "{LOOPBACK}" }}\n'
        f'advertise {{ http = "{LOOPBACK}" serf = "{LOOPBACK}:99" }}\n'
        'client {\n network_interface = "{{ GetAllInterfaces | include \\"name\\" \\"^lo$\\" '
        '| limit 1 | attr \\"name\\" }}"\n}\n',
    )
    listen = Listen(found.file, None, False, NO_PORTS)
    assert (listen.http, listen.rpc) == ("127.0.0.1:4646", "127.0.0.1:4647")
    assert found.server["http_advertise"] == "127.0.0.1"
    assert found.server["raft_advertise"] == "127.0.0.1:99"
    assert found.agent["network_interface"] == "lo"


def test_several_addresses_of_http_are_listened_on(tmp_path: Path) -> None:
    found = read(tmp_path, f'addresses {{ http = "127.0.0.2 ::1 {LOOPBACK} 127.0.0.2" }}\n')
    listen = Listen(found.file, None, False, (80, None, None))
    assert (listen.http, listen.http_also) == ("127.0.0.2:80", ("[::1]:80", "127.0.0.1:80"))
    by_option = Listen(found.file, "127.0.0.3", False, (80, None, None))
    assert (by_option.http, by_option.http_also) == ("127.0.0.3:80", ())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{{ GetPrivateIP", "is not closed"),
        ("GetPrivateIP }}", "is not closed"),
        ('{{ GetInterfaceIP "nosuch0" }}', "names no address of this machine"),
        ("{{ Nonsense }}", "Nonsense"),
    ],
)
def test_template_that_gives_no_address_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        addresses_of_machine(text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("127.0.0.1", True),
        ("fe80::1", True),
        ("a.example.", True),
        ("my_host", True),
        ("1.2.3", False),
        ("a..b", False),
        ("-a", False),
        ("a/b", False),
        ("", False),
    ],
)
def test_hosts_are_told_from_other_texts(text: str, wanted: bool) -> None:
    assert is_host(text) == wanted


def test_http_is_served_on_each_address() -> None:
    async def scenario() -> None:
        access = HttpAccess(also=("127.0.0.2:0",))
        async with listening(PlainTextResponse("here"), access) as server:
            port = split_host_port(server.address)[1]
            async with httpx.AsyncClient(trust_env=False) as client:
                for host in ("127.0.0.1", "127.0.0.2"):
                    answer = await client.get(f"http://{host}:{port}/", timeout=20)
                    assert answer.text == "here"

    on_uvloop(scenario)


def test_address_beyond_loopback_is_refused_wherever_it_stands() -> None:
    server = HttpServer(
        PlainTextResponse("here"), "127.0.0.1:0", HttpAccess(also=("192.0.2.1:80",))
    )
    with pytest.raises(InvalidInputError, match=r"cannot serve HTTP on 192.0.2.1:80"):
        asyncio.run(server.start())
