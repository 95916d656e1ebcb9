"""What a node knows of itself and of its cluster; it is stored, so that restarts keep it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from agent.local_state.store import LocalState
from agent.node.registration import NodeIdentity
from orchgit.ids import IdSource
from orchgit.model.cluster import ClusterName

_NODE_ID, _SECRET_ID = "node_id", "secret_id"
_SERVERS, _ACL, _META = "servers", "acl", "meta"
_CLUSTER_ID, _LOG_ID = "cluster_id", "log_id"


class NodeFacts:
    """The node keeps its id as long as its data directory; a new one is drawn from `ids`."""

    def __init__(self, local: LocalState, ids: IdSource) -> None:
        self._local = local
        stored = local.facts()
        if _NODE_ID not in stored:
            stored |= {_NODE_ID: ids.new(), _SECRET_ID: ids.new()}
            local.put_facts(stored)
        self.identity = NodeIdentity(stored[_NODE_ID], stored[_SECRET_ID])
        self.cluster = ClusterName(stored.get(_CLUSTER_ID, ""), stored.get(_LOG_ID, ""))
        """The node's cluster as it was stored when this agent started."""
        self._servers = [name for name in stored.get(_SERVERS, "").split(",") if name]
        self._acl = stored.get(_ACL) == "on"
        self._meta: dict[str, str | None] = json.loads(stored.get(_META, "{}"))

    @property
    def servers(self) -> list[str]:
        """The servers that the cluster named last: a restart finds one though the config's are
        gone."""
        return list(self._servers)

    @property
    def acl(self) -> bool:
        """Whether the cluster's access control is on, as the servers said last."""
        return self._acl

    @property
    def meta(self) -> Mapping[str, str | None]:
        """Metadata set at run time, over the config's; None hides a key of the config."""
        return self._meta

    def put_cluster(self, name: ClusterName) -> None:
        self._local.put_facts({_CLUSTER_ID: name.cluster_id, _LOG_ID: name.log_id})

    def put_servers(self, servers: list[str]) -> bool:
        """Returns whether they are others than before."""
        if not servers or servers == self._servers:
            return False
        self._servers = servers
        self._local.put_facts({_SERVERS: ",".join(servers)})
        return True

    def put_acl(self, acl: bool) -> None:
        if acl != self._acl:
            self._acl = acl
            self._local.put_facts({_ACL: "on" if acl else "off"})

    def change_meta(self, changes: Mapping[str, str | None]) -> None:
        self._meta = {**self._meta, **changes}
        self._local.put_facts({_META: json.dumps(self._meta)})
