"""Dynamic host volumes, and giving up a claim by hand."""

from __future__ import annotations

from orchgit.errors import ConflictError, NotFoundError
from orchgit.model.volume import HostVolume
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.commands.volumes import (
    DeleteHostVolume,
    DeleteVolumeClaim,
    SetHostVolumeStates,
    UpsertHostVolume,
)
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn


def upsert_host_volume(txn: WriteTxn, command: UpsertHostVolume, effects: Effects) -> HostVolume:
    volume = command.volume
    if not txn.namespaces.has(volume.namespace):
        raise NotFoundError(
            f"cannot create volume {volume.name!r}: there is no namespace {volume.namespace!r}"
        )
    known = txn.host_volumes.get(volume.id)
    volume.create_index = known.create_index if known else txn.index
    volume.create_time_ns = known.create_time_ns if known else txn.now_ns
    volume.modify_index, volume.modify_time_ns = txn.index, txn.now_ns
    txn.host_volumes.put(volume)
    effects.note(txn.index, "HostVolumeRegistered", volume)
    return volume


def set_host_volume_states(txn: WriteTxn, command: SetHostVolumeStates, effects: Effects) -> None:
    for volume_id, state in command.states.items():
        volume = txn.host_volumes.get(volume_id)
        if volume is not None and volume.state != state:
            volume.state = state
            volume.modify_index, volume.modify_time_ns = txn.index, txn.now_ns
            txn.host_volumes.put(volume)
            effects.note(txn.index, "NodeRegistration", volume)


def delete_host_volume(txn: WriteTxn, command: DeleteHostVolume, effects: Effects) -> None:
    volume = txn.host_volumes.get(command.volume_id)
    if volume is None or volume.namespace != command.namespace:
        raise NotFoundError(
            f"cannot delete volume {command.volume_id!r}: there is none in namespace "
            f"{command.namespace!r}"
        )
    claims = [claim for claim in txn.volume_claims.all() if claim.volume_id == volume.id]
    if claims:
        raise ConflictError(
            f"cannot delete volume {volume.id!r}: job {claims[0].job_id!r} claims it; purge the "
            "job or delete the claim first"
        )
    txn.host_volumes.delete(volume.id)
    effects.note(txn.index, "HostVolumeDeleted", volume)


def delete_volume_claim(txn: WriteTxn, command: DeleteVolumeClaim, effects: Effects) -> None:
    if txn.volume_claims.get(command.claim_id) is None:
        raise NotFoundError(f"cannot delete volume claim {command.claim_id!r}: there is no such")
    txn.volume_claims.delete_all([command.claim_id])


HANDLERS: Handlers = {
    UpsertHostVolume: upsert_host_volume,
    SetHostVolumeStates: set_host_volume_states,
    DeleteHostVolume: delete_host_volume,
    DeleteVolumeClaim: delete_volume_claim,
}
