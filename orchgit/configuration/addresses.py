"""Addresses of a configuration: texts, or templates of go-sockaddr that are evaluated here."""

from __future__ import annotations

import ipaddress
import re
from typing import TypeVar

from msgspec.structs import replace

from agent.templates.addresses import addresses_of
from orchgit.configuration.schema import Addresses, FileConfig
from orchgit.errors import InvalidInputError

_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?"
    r"(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?"
)
AddressesT = TypeVar("AddressesT", bound=Addresses)


def addresses_of_machine(text: str) -> list[str]:
    """Returns what a text names: words with spaces between, or what a template such as
    `{{ GetPrivateIP }}` gives on this machine. Raises InvalidInputError where that is nothing."""
    if "{{" not in text and "}}" not in text:
        return text.split() or [text]
    if text.count("{{") != text.count("}}"):
        raise InvalidInputError(f'the template "{text}" is not closed: write "{{{{ ... }}}}"')
    found = addresses_of(text).split()
    if not found:
        raise InvalidInputError(f'the template "{text}" names no address of this machine')
    return found


def is_host(text: str) -> bool:
    """Returns whether the text is an IP address, without brackets, or the name of a host."""
    if is_ip_address(text):
        return True
    return re.fullmatch(r"[0-9.]+", text) is None and _HOST_NAME.fullmatch(text) is not None


def is_ip_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def with_addresses(file: FileConfig) -> FileConfig:
    """Returns the file with addresses in the place of templates. Raises InvalidInputError."""
    networks = {
        name: replace(network, interface=_evaluated(network.interface))
        for name, network in file.client.host_network.items()
    }
    client = replace(
        file.client,
        network_interface=_evaluated(file.client.network_interface),
        host_network=networks,
    )
    return replace(
        file,
        bind_addr=_evaluated(file.bind_addr),
        addresses=_all_evaluated(file.addresses),
        advertise=_all_evaluated(file.advertise),
        client=client,
    )


def _all_evaluated(section: AddressesT) -> AddressesT:
    return replace(
        section,
        http=_evaluated(section.http),
        rpc=_evaluated(section.rpc),
        serf=_evaluated(section.serf),
    )


def _evaluated(text: str) -> str:
    return " ".join(addresses_of_machine(text)) if "{{" in text else text
