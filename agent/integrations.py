"""Consul and Vault on this node: loops that run only where the configuration names them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

from agent.config import AgentConfig
from agent.loops import spawn, until_done
from agent.node.description import NodeDescription
from agent.services.registrations import ServiceTable
from agent.templates.cluster_reads import OutsideSource
from orchgit.clock import Clock


def template_sources(config: AgentConfig) -> Iterator[OutsideSource]:
    """Returns what templates read of the integrations that are configured."""
    if config.consul is not None:
        from agent.consul.template_reads import ConsulReads

        yield ConsulReads(config.consul, config.template.use_consul_token)
    if config.vault is not None:
        from agent.vault.template_reads import VaultReads

        yield VaultReads(config.vault)


def start_integrations(
    config: AgentConfig, node: NodeDescription, services: ServiceTable, clock: Clock
) -> Iterator[asyncio.Task[None]]:
    """Start the loops of the integrations that are configured; nothing of the others is loaded."""
    if config.consul is not None:
        from agent.consul.sync import ConsulSync

        consul = ConsulSync(
            config.consul.service,
            config.consul.namespace,
            services,
            node.node().id,
            clock,
            partial(node.integration_changed, "consul"),
        )
        yield spawn(until_done(consul.run, "consul", clock), "consul")
    if config.vault is not None:
        from agent.vault.tokens import Vault
        from agent.vault.watch import watch_vault

        watch = partial(
            watch_vault, Vault(config.vault), clock, partial(node.integration_changed, "vault")
        )
        yield spawn(until_done(watch, "vault", clock), "vault")
