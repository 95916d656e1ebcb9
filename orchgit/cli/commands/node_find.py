"""Finds the node that a command means."""

from __future__ import annotations

from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.options import option

own_node_option = option(
    "self", dest="own", is_flag=True, help="The node of the agent that is asked."
)


def find_node(client: ApiClient, identifier: str | None, own: bool = False) -> dict[str, Any]:
    """Returns the node with this id, or the only one whose id begins with it; with `own` that of
    the agent that answers."""
    if own:
        identifier = own_node_id(client)
    if not identifier:
        raise click.UsageError("cannot tell which node: give its id, or -self")
    return client.find("node", "/v1/nodes", identifier)


def own_node_id(client: ApiClient) -> str:
    """Returns the node of the agent that answers; raises ApiError where it runs no client."""
    stats = client.get("/v1/agent/self").get("stats") or {}
    identifier = (stats.get("client") or {}).get("node_id")
    if not identifier:
        raise ApiError("cannot tell which node this is: the agent asked runs no client")
    return str(identifier)
