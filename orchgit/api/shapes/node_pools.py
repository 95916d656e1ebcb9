"""Node pools as answers and events show them."""

from __future__ import annotations

from typing import Any

from orchgit.api.shapes import nomad_json
from orchgit.clock import SECOND_NS
from orchgit.durations import to_text
from orchgit.model.node import NodePool
from orchgit.services.nodes.pools import BUILT_IN_POOLS

_IDENTITY_TTL_NS = 24 * 3600 * SECOND_NS
"""What Nomad shows of a pool that sets none."""


def shown_pool(pool: NodePool) -> Any:
    """Returns the pool with Nomad's content hash, which its Terraform provider compares."""
    value = nomad_json.tree(pool)
    if pool.name in BUILT_IN_POOLS and value["Description"]:
        value["Description"] = value["Description"].rstrip(".") + "."
    value["NodeIdentityTTL"] = pool.node_identity_ttl_ns or _IDENTITY_TTL_NS
    if pool.name in BUILT_IN_POOLS:
        value["Hash"], value["Meta"] = None, None
    else:
        value["Hash"] = nomad_json.text_hash(
            *(pool.name, pool.description, to_text(value["NodeIdentityTTL"])),
            *nomad_json.in_order(pool.meta),
        )
        value["Meta"] = pool.meta or {}
    return value
