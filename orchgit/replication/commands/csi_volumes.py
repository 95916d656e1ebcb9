"""CSI volumes and the claims on them."""

from __future__ import annotations

from typing import ClassVar

from orchgit.model.csi import CsiClaim, CsiVolume
from orchgit.replication.commands.entry import Entry


class PutCsiVolume(Entry, tag="put-csi-volume", kw_only=True):
    """A volume as it is registered; claims on a known one stay."""

    since: ClassVar[int] = 5

    volume: CsiVolume


class DeleteCsiVolume(Entry, tag="delete-csi-volume", kw_only=True):
    """`force`: also while allocations claim it."""

    since: ClassVar[int] = 5

    namespace: str = "default"
    volume_id: str = ""
    force: bool = False


class ClaimCsiVolume(Entry, tag="claim-csi-volume", kw_only=True):
    """A claim of an allocation, new or with what publishing gave."""

    since: ClassVar[int] = 5

    namespace: str = "default"
    volume_id: str = ""
    claim: CsiClaim


class ReleaseCsiClaim(Entry, tag="release-csi-claim", kw_only=True):
    since: ClassVar[int] = 5

    namespace: str = "default"
    volume_id: str = ""
    alloc_id: str = ""


CsiVolumeCommand = PutCsiVolume | DeleteCsiVolume | ClaimCsiVolume | ReleaseCsiClaim
