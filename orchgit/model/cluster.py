"""Which cluster a server or a node belongs to."""

from __future__ import annotations

import msgspec

from orchgit.model.base import nomad_name


class ClusterName(msgspec.Struct, frozen=True, rename=nomad_name, gc=False):
    """A restored backup brings its `cluster_id` along; `log_id` never changes.

    Empty where it is not known: servers of an older version do not tell it.
    """

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
