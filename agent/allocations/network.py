"""The network of one allocation, where it is not the host's."""

from __future__ import annotations

from collections.abc import Callable

from agent.context import AllocContext, NodeContext
from agent.drivers.base import CreatesNetworks, NetworkIsolation
from agent.networks.wanted import group_network, wanted_network
from orchgit.errors import DriverError, InvalidInputError
from orchgit.model.allocation import NetworkStatus
from orchgit.model.interpolation import Interpolator


class AllocNetwork:
    """`changed` is called when a network was made, after the context has it. `is_idle` tells
    whether tasks have run, and none runs now."""

    def __init__(
        self,
        node: NodeContext,
        context: AllocContext,
        interpolator: Callable[[], Interpolator],
        changed: Callable[[], None],
        is_idle: Callable[[], bool],
    ) -> None:
        self._node = node
        self._context = context
        self._interpolator = interpolator
        self._changed = changed
        self._is_idle = is_idle
        context.set_up_network = self.set_up

    async def set_up(self) -> NetworkIsolation | None:
        """Make the network, or find it again. Called before the first task, and before each start
        of a task, since an engine that was restarted may have taken the network with it.

        Returns None where the tasks use the host's network. Raises DriverError.
        """
        context, networks = self._context, self._node.networks
        if group_network(context.group) is None:
            return None
        if networks is None:
            raise DriverError("cannot set up the network: this agent makes no networks")
        try:
            wanted = wanted_network(
                context.alloc,
                context.job,
                context.group,
                self._node.region,
                self._interpolator(),
                networks.maps_any_address,
            )
        except InvalidInputError as error:
            raise DriverError(str(error)) from None
        assert wanted is not None, "the group has a network"
        used = {task.driver for task in context.group.tasks}
        makers = (
            name
            for name in sorted(used)
            if isinstance(self._node.drivers.get(name), CreatesNetworks)
        )
        network = await networks.set_up(wanted, next(makers, ""), self._is_idle())
        if network != context.network:
            context.network = network
            self._changed()
        return network

    async def remove(self) -> None:
        """After the last task: nothing of the network is left on the node."""
        if self._node.networks is not None and group_network(self._context.group) is not None:
            await self._node.networks.remove(self._context.alloc.id)

    @property
    def status(self) -> NetworkStatus | None:
        """What the servers should know of it; None as long as there is none."""
        network = self._context.network
        if network is None:
            return None
        dns = network.dns
        return NetworkStatus(
            interface_name=network.interface,
            address=network.address,
            address_ipv6=network.address_ipv6,
            dns=None
            if dns is None
            else {"Servers": dns.servers, "Searches": dns.searches, "Options": dns.options},
        )
