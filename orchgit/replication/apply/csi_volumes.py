"""CSI volumes and the claims of allocations on them."""

from __future__ import annotations

from orchgit.errors import ConflictError, NotFoundError
from orchgit.model.csi import CsiVolume
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.commands.csi_volumes import (
    ClaimCsiVolume,
    DeleteCsiVolume,
    PutCsiVolume,
    ReleaseCsiClaim,
)
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn


def put_csi_volume(txn: WriteTxn, command: PutCsiVolume, effects: Effects) -> None:
    volume = command.volume
    if not txn.namespaces.has(volume.namespace):
        raise NotFoundError(
            f"cannot register volume {volume.id!r}: there is no namespace {volume.namespace!r}"
        )
    known = txn.csi_volumes.get(volume.namespace, volume.id)
    volume.create_index = known.create_index if known else txn.index
    volume.create_time_ns = known.create_time_ns if known else txn.now_ns
    volume.claims = known.claims if known else []
    if known is not None and known.claims:
        volume.access_mode, volume.attachment_mode = known.access_mode, known.attachment_mode
    _put(txn, volume)


def delete_csi_volume(txn: WriteTxn, command: DeleteCsiVolume, effects: Effects) -> None:
    volume = _volume(txn, command.namespace, command.volume_id)
    if volume.claims and not command.force:
        raise ConflictError(f"volume in use: {volume.id}")
    txn.csi_volumes.delete(volume.namespace, volume.id)


def claim_csi_volume(txn: WriteTxn, command: ClaimCsiVolume, effects: Effects) -> None:
    volume, claim = _volume(txn, command.namespace, command.volume_id), command.claim
    if problem := volume.claim_problem(claim):
        raise ConflictError(problem)
    others = [each for each in volume.claims if each.alloc_id != claim.alloc_id]
    volume.claims = [*others, claim]
    volume.access_mode, volume.attachment_mode = claim.access_mode, claim.attachment_mode
    _put(txn, volume)


def release_csi_claim(txn: WriteTxn, command: ReleaseCsiClaim, effects: Effects) -> None:
    volume = txn.csi_volumes.get(command.namespace, command.volume_id)
    if volume is None or volume.claim_of(command.alloc_id) is None:
        return
    volume.claims = [each for each in volume.claims if each.alloc_id != command.alloc_id]
    if not volume.claims:
        volume.access_mode = volume.attachment_mode = ""
    _put(txn, volume)


def _put(txn: WriteTxn, volume: CsiVolume) -> None:
    volume.modify_index, volume.modify_time_ns = txn.index, txn.now_ns
    txn.csi_volumes.put(volume)


def _volume(txn: WriteTxn, namespace: str, volume_id: str) -> CsiVolume:
    volume = txn.csi_volumes.get(namespace, volume_id)
    if volume is None:
        raise NotFoundError(f"volume not found: {volume_id}")
    return volume


HANDLERS: Handlers = {
    PutCsiVolume: put_csi_volume,
    DeleteCsiVolume: delete_csi_volume,
    ClaimCsiVolume: claim_csi_volume,
    ReleaseCsiClaim: release_csi_claim,
}
