"""What texts of the configuration may be: each rule says what is wrong with a text, "" if nothing.

The sentence is about "it", the value of the key, and goes on from the key's name.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from urllib.parse import urlsplit

from agent.artifacts.plan import EXTRA_PATH
from agent.networks.config import is_interface_name, is_subnet
from orchgit.configuration.addresses import addresses_of_machine, is_host, is_ip_address
from orchgit.configuration.bound_kinds import TextBound, wrong_by
from orchgit.errors import InvalidInputError
from orchgit.host_port import is_host_port, is_wildcard, join_host_port
from orchgit.logs import LogSettings
from orchgit.metrics.push import has_port
from orchgit.model.source import is_source_name

_MAX_PORT = 65535
_MAX_NAME = 128
_POOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_META_NAME = re.compile(r"[^.]+(\.[^.]+)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def name_or_default(default: str, taken: str = "") -> TextBound:
    """Returns the bound of a name that is not empty; `default` is what stands without the key,
    `taken` has characters that it may not have."""

    def wrong(text: str) -> str:
        if not text.strip():
            return f'it must not be empty: take the line out for "{default}", or write a name'
        if len(text) > _MAX_NAME:
            return f"it must have at most {_MAX_NAME} characters: it has {len(text)}"
        if each := next((each for each in taken if each in text), ""):
            return f'it must not have the character "{each}": "{text}"'
        return ""

    return TextBound(wrong, empty=False)


def absolute(text: str) -> str:
    return "" if text.startswith("/") else f'it must be an absolute path, not "{text}"'


def absolute_paths(text: str) -> str:
    return next((wrong for one in text.split(":") if (wrong := absolute(one))), "")


def log_level(text: str) -> str:
    return "" if not wrong_by(lambda level: LogSettings(level), text) else (
        f'it must be TRACE, DEBUG, INFO, WARN or ERROR, not "{text}"'
    )  # fmt: skip


def node_pool(text: str) -> str:
    if not _POOL_NAME.fullmatch(text):
        return f'it must have 1 to 128 letters, digits, "-" or "_", not "{text}"'
    return 'it must not be "all", which is every pool' if text == "all" else ""


def meta_name(name: str) -> str:
    return "" if _META_NAME.fullmatch(name) else f'it must not have the key "{name}": empty parts'


def url(text: str) -> str:
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    return "" if good and not re.search(r"\s", text) else (
        f'it must be a URL, as "https://HOST:PORT", not "{text}"'
    )  # fmt: skip


def host_port_or_url(text: str) -> str:
    return url(text if "://" in text else f"http://{text}") and (
        f'it must be HOST:PORT or a URL, not "{text}"'
    )


def listening(several: bool) -> Callable[[str], str]:
    def wrong(text: str) -> str:
        try:
            found = addresses_of_machine(text)
        except InvalidInputError as error:
            return error.message
        if len(found) > 1 and not several:
            return f'it must be one address: "{text}" is {", ".join(found)}'
        for address in found:
            if is_host_port(address) and not is_ip_address(address):
                return f'it must be an address without a port, which `ports` has, not "{address}"'
            if not is_host(address):
                return f'it must be an IP address or the name of a host, not "{address}"'
        return ""

    return wrong


def advertised(text: str) -> str:
    try:
        found = addresses_of_machine(text)
    except InvalidInputError as error:
        return error.message
    if len(found) > 1:
        return f'it must be one address: "{text}" is {", ".join(found)}'
    [address] = found
    host, colon, port = address.rpartition(":")
    if is_ip_address(address.strip("[]")):
        host = address.strip("[]")
    elif not colon:
        host = address
    elif not is_host_port(address) or not int(port):
        return f'it must be host or host:port, not "{address}"'
    host = host.strip("[]")
    if not is_host(host):
        return f'it must be host or host:port, not "{address}"'
    if is_wildcard(join_host_port(host, 1)):
        return f'it must be an address to which others can connect, not "{address}"'
    return ""


def interface(text: str) -> str:
    if "{{" in text:
        return wrong_by(addresses_of_machine, text)
    return "" if is_interface_name(text) else f'it must be the name of an interface, not "{text}"'


def cidr(text: str) -> str:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return f'it must be a CIDR block, as "10.0.0.0/8", not "{text}"'
    return ""


def subnet(version: int) -> TextBound:
    return TextBound(
        lambda text: (
            ""
            if is_subnet(text, version)
            else f'it must be a CIDR block of IPv{version} with free addresses, not "{text}"'
        )
    )


def port_ranges(text: str) -> str:
    """Returns what is wrong with a list of ports and ranges, as "22,8000-8010"."""
    for part in text.split(","):
        ends = [end.strip() for end in part.split("-")]
        good = len(ends) <= 2 and all(end.isascii() and end.isdigit() for end in ends)
        numbers = [int(end[:6]) for end in ends] if good else []
        if not good or numbers[0] > numbers[-1] or numbers[-1] > _MAX_PORT:
            return f'it must be ports and ranges up to {_MAX_PORT}, as "22,8000-8010", not "{text}"'
    return ""


def login(text: str) -> str:
    return "" if text.partition(":")[0] and ":" in text else "it must be USER:PASSWORD"


def host_port(text: str) -> str:
    return "" if has_port(text) else f'it must be host:port, not "{text}"'


def source_name(text: str) -> str:
    return "" if is_source_name(text) else (
        f'it must have 1 to 64 lower-case letters, digits and inner dashes, not "{text}"'
    )  # fmt: skip


def extra_path(text: str) -> str:
    if EXTRA_PATH.fullmatch(text):
        return ""
    return f'it must have TYPE:MODES:PATH, as in f:r:/etc/artifacts.conf, not "{text}"'


def variable_names(text: str) -> str:
    if all(_VARIABLE.fullmatch(one.strip()) for one in text.split(",")):
        return ""
    return f'it must be names of variables with commas between, not "{text}"'


def bridge_name(text: str) -> str:
    if is_interface_name(text):
        return ""
    return f'it must be the name of an interface, of 1 to 15 characters, not "{text}"'
