"""Connects a namespace to a network by its plugins, one after the other, and disconnects it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.networks.cni import plugins
from agent.networks.cni.configuration import NetworkList
from orchgit.errors import DriverError

INTERFACE = "eth0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """One namespace and one network."""

    container_id: str
    namespace: str
    """"" when it is gone already; plugins then free what they have given."""
    network: NetworkList
    search_path: str
    """Directories of the plugins, joined by colons."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Given to the plugins as `CNI_ARGS`."""
    lock_fd: int = -1
    """A descriptor that plugins and their children hold open: its lock tells whether one that an
    agent started which was killed is still at work."""
    capabilities: Mapping[str, object] = field(default_factory=dict)
    """What a plugin gets as `runtimeConfig` if it declares the capability: `portMappings`."""


async def add(
    to: Attachment, changed: Callable[[dict[str, Any]], Awaitable[None]]
) -> dict[str, Any]:
    """Returns the result of the last plugin.

    `changed` stores a result before the next plugin is called: firewalls are left as they are by a
    DEL that is not told the addresses. DriverError when a plugin fails; then the caller deletes.
    """
    result: dict[str, Any] = {}
    for plugin in to.network.plugins:
        before, result = result, await _call(to, plugin, "ADD", result) or result
        if result != before:
            await changed(result)
    return result


async def check(to: Attachment, result: Mapping[str, Any]) -> None:
    """DriverError when the namespace is not connected as `result` says.

    Nothing is done for networks that know no CHECK: it exists since version 0.4.0.
    """
    if to.network.disable_check or _version(to.network) < (0, 4):
        return
    has_ipv6 = any(":" in str(entry.get("address")) for entry in result.get("ips") or ())
    for plugin in to.network.plugins:
        if plugin["type"] == "portmap" and not has_ipv6:
            continue  # version 1.1 asks for rules of IPv6 that it has not made
        await _call(to, plugin, "CHECK", result)


async def delete(to: Attachment, result: Mapping[str, Any] | None) -> None:
    """Disconnect, last plugin first. May be repeated. DriverError of the first plugin that failed,
    after all were called."""
    failure: DriverError | None = None
    given = result if _version(to.network) >= (0, 4) else None
    for plugin in reversed(to.network.plugins):
        try:
            await _call(to, plugin, "DEL", given)
        except DriverError as error:
            failure = failure or error
    if failure is not None:
        raise failure


async def _call(
    to: Attachment, plugin: Mapping[str, Any], command: str, previous: Mapping[str, Any] | None
) -> dict[str, Any]:
    declared = plugin.get("capabilities")
    wanted = [name for name, on in declared.items() if on] if isinstance(declared, dict) else []
    given = {name: to.capabilities[name] for name in wanted if to.capabilities.get(name)}
    configuration: dict[str, object] = {
        **{name: value for name, value in plugin.items() if name != "capabilities"},
        "name": to.network.name,
        "cniVersion": to.network.cni_version,
    }
    if given:
        configuration["runtimeConfig"] = given
    if previous:
        configuration["prevResult"] = previous
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": to.container_id,
        "CNI_NETNS": to.namespace,
        "CNI_IFNAME": INTERFACE,
        "CNI_PATH": to.search_path,
        "CNI_ARGS": ";".join(f"{name}={value}" for name, value in to.arguments.items()),
    }
    return await plugins.call(
        plugins.find(plugin["type"], to.search_path),
        environment,
        configuration,
        pass_fds=(to.lock_fd,) if to.lock_fd >= 0 else (),
    )


def _version(network: NetworkList) -> tuple[int, ...]:
    parts = network.cni_version.split(".")
    return tuple(int(part) if part.isdecimal() else 0 for part in parts)
