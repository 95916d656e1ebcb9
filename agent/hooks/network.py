"""The group's network is there, and the task's own /etc/hosts and /etc/resolv.conf are written."""

from __future__ import annotations

import ipaddress
import platform
from collections.abc import Iterable
from pathlib import Path

from agent.drivers.base import NetworkIsolation
from agent.hooks.base import SetupError, TaskSetup
from agent.hooks.files import write_inside
from agent.paths import PRIVATE
from orchgit.model.resources import DNSConfig

_HOSTS, _RESOLV_CONF = f"{PRIVATE}/hosts", f"{PRIVATE}/resolv.conf"
_READABLE = 0o644
_HOST_FILES = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))
"""The second is the one to use where the first names only a resolver on the host's loopback."""
_EXTRA_HOSTS = "extra_hosts"
_LOCAL_NAMES = (
    ("127.0.0.1", "localhost"),
    ("::1", "localhost ip6-localhost ip6-loopback"),
    ("fe00::0", "ip6-localnet"),
    ("ff00::0", "ip6-mcastprefix"),
    ("ff02::1", "ip6-allnodes"),
    ("ff02::2", "ip6-allrouters"),
)


async def prepare(setup: TaskSetup) -> None:
    """Fills `setup.network` with the group's network, and with the files of the task."""
    network = await setup.set_up_network()
    setup.network = network
    if network is None or setup.isolation == "none":
        return
    config = setup.environment().interpolate.tree(setup.task.config or {})
    extra = config.get(_EXTRA_HOSTS)
    hosts = hosts_file(
        network,
        network.hostname or platform.node() or "localhost",
        extra if isinstance(extra, list) else [],
    )
    of_host = [path.read_text(errors="replace") for path in _HOST_FILES if path.is_file()]
    resolv = resolv_conf(network.dns, of_host)
    root = setup.paths.task_dir
    write_inside(root, _HOSTS, hosts.encode(), _READABLE)
    write_inside(root, _RESOLV_CONF, resolv.encode(), _READABLE)
    setup.network = network.with_files(str(root / _HOSTS), str(root / _RESOLV_CONF))


def hosts_file(network: NetworkIsolation, hostname: str, extra_hosts: Iterable[object]) -> str:
    """The text of /etc/hosts: this machine's loopback names, the allocation's own name, and
    `extra_hosts` (`NAME:ADDRESS`, as docker's option of that name has them).

    Raises SetupError for an entry of another form.
    """
    lines = [f"{address} {names}" for address, names in _LOCAL_NAMES]
    lines += [
        f"{address} {hostname}"
        for address in dict.fromkeys((network.address, network.address_ipv6))
        if address
    ]
    for entry in extra_hosts:
        name, _, address = str(entry).partition(":")
        try:
            lines.append(f"{ipaddress.ip_address(address.strip('[]'))} {name}")
        except ValueError:
            raise SetupError(
                f'cannot use extra_hosts: "{entry}" is not of the form NAME:ADDRESS'
            ) from None
    return "\n".join(lines) + "\n"


def resolv_conf(dns: DNSConfig | None, host_files: Iterable[str]) -> str:
    """The text of /etc/resolv.conf: what `dns` says, and what it leaves open as the first of
    `host_files` has it that names a server which the namespace can reach."""
    host: dict[str, list[str]] = {}
    for text in host_files:
        host = _parsed(text)
        if host["nameserver"]:
            break
    given = dns or DNSConfig()
    servers = given.servers or host.get("nameserver", [])
    searches = given.searches or host.get("search", [])
    options = given.options or host.get("options", [])
    lines = [f"search {' '.join(searches)}"] if searches else []
    lines += [f"nameserver {server}" for server in servers]
    lines += [f"options {' '.join(options)}"] if options else []
    return "\n".join(lines) + "\n"


def _parsed(text: str) -> dict[str, list[str]]:
    """The servers (without those on loopback), the search list and the options of the host."""
    found: dict[str, list[str]] = {"nameserver": [], "search": [], "options": []}
    for line in text.splitlines():
        keyword, *values = line.split("#")[0].split(";")[0].split() or [""]
        if keyword == "nameserver" and values:
            try:
                if ipaddress.ip_address(values[0].partition("%")[0]).is_loopback:
                    continue
            except ValueError:
                continue
            found[keyword].append(values[0])
        elif keyword in ("search", "domain"):
            found["search"] = values
        elif keyword == "options":
            found[keyword] += values
    return found
