"""Which cluster a server or a node is of."""

from __future__ import annotations

import msgspec

from orchgit.model.base import nomad_name


class ClusterName(msgspec.Struct, frozen=True, rename=nomad_name, gc=False):
    """`cluster_id` is in backups, and comes with one that is restored; `log_id` never changes.
    Empty: not known, as with servers of an older version."""

    cluster_id: str = ""
    log_id: str = ""

    def may_be(self, other: ClusterName) -> bool:
        """Whether both can be the same cluster. One id is enough: a backup that is restored onto
        new servers brings the cluster's id along, and leaves them their log's."""
        if not (self.cluster_id and other.cluster_id):
            return True
        return self.cluster_id == other.cluster_id or (
            self.log_id == other.log_id and self.log_id != ""
        )
