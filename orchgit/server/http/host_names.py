"""The names under which a listener answers: configured ones, and the machine's own.

A page on a name of its own can have that name resolve to this machine (DNS rebinding): a browser
then takes this server's answers for the page's own. The `Host` of such a request is the page's
name. An address in the place of a name cannot be rebound, so every address is allowed: of this
machine, of the load balancer or of the forwarded port in front of it.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from orchgit.errors import InvalidInputError

_ANY = "*"


@dataclass(frozen=True, slots=True)
class HostNames:
    """The allowed names. `configured` ones may begin with `*.`, or be `*` alone: any name."""

    configured: tuple[str, ...] = ()
    own: tuple[str, ...] = ()

    def allows(self, host: str) -> bool:
        """Returns whether a Host header, with or without a port, is allowed."""
        name = _name_of(host)
        if _is_address(name) or name == "localhost" or name.endswith(".localhost"):
            return True
        return any(_matches(pattern, name) for pattern in (*self.configured, *self.own))

    def names(self, host: str) -> bool:
        """Returns whether the configuration has exactly this name."""
        return _name_of(host) in {name.lower() for name in self.configured}


def check_names(names: Iterable[str]) -> None:
    """Raises InvalidInputError for an invalid name in `http_allowed_hosts`."""
    for name in names:
        rest = name.removeprefix("*.")
        if name != _ANY and (not rest or any(sign in rest for sign in "*/:@ ")):
            raise InvalidInputError(
                f'cannot use http_allowed_hosts: "{name}" is not a name; write "host.example", '
                '"*.example" or "*", without a scheme and a port'
            )


def own_names(addresses: Iterable[str], certificates: Iterable[Path]) -> tuple[str, ...]:
    """Returns the machine's name, those in `addresses` (host or host:port), and those of
    certificates.

    Raises InvalidInputError for a certificate that cannot be read.
    """
    found = [os.uname().nodename, *(_name_of(address) for address in addresses if address)]
    for file in certificates:
        found += _names_in(file)
    return tuple(dict.fromkeys(name.lower() for name in found if name))


def _names_in(file: Path) -> list[str]:
    try:
        certificate = x509.load_pem_x509_certificate(file.read_bytes())
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"cannot read the certificate {file}: {error}") from error
    return list(extension.value.get_values_for_type(x509.DNSName))


def _name_of(host: str) -> str:
    """Strips the port, the brackets and the dot of the root."""
    name = host.strip().lower()
    if name.startswith("["):
        address, _, rest = name[1:].partition("]")
        return address if rest[:1] in ("", ":") else name
    if name.count(":") == 1:
        name = name.partition(":")[0]
    return name.removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def _matches(pattern: str, name: str) -> bool:
    if pattern == _ANY:
        return True
    pattern = pattern.lower()
    return name == pattern or (pattern.startswith("*.") and name.endswith(pattern[1:]))
