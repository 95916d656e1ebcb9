"""Host volumes and the claims on them."""

from __future__ import annotations

from typing import ClassVar

from orchgit.model.volume import HostVolume
from orchgit.replication.commands.entry import Entry


class UpsertHostVolume(Entry, tag="upsert-host-volume", kw_only=True):
    volume: HostVolume


class SetHostVolumeStates(Entry, tag="set-host-volume-states", kw_only=True):
    """Volume id -> its state, as the leader finds it. Of one that is deleted: nothing."""

    since: ClassVar[int] = 2

    states: dict[str, str]


class DeleteHostVolume(Entry, tag="delete-host-volume", kw_only=True):
    namespace: str
    volume_id: str


class DeleteVolumeClaim(Entry, tag="delete-volume-claim", kw_only=True):
    """Un-stick a group from its volume by hand; the workload keeps running."""

    claim_id: str


HostVolumeCommand = UpsertHostVolume | SetHostVolumeStates | DeleteHostVolume | DeleteVolumeClaim
