"""What servers and agents both say to CSI plugins."""

from __future__ import annotations

from typing import Any

from orchgit.model.csi import CsiClaim, CsiVolume
from orchgit.model.volume import MountOptions, VolumeCapability

ACCESS_MODES = {
    "single-node-writer": 1,
    "single-node-reader-only": 2,
    "multi-node-reader-only": 3,
    "multi-node-single-writer": 4,
    "multi-node-multi-writer": 5,
}


def capability(volume: CsiVolume, claim: CsiClaim) -> dict[str, Any]:
    """Returns the VolumeCapability of a claim."""
    return volume_capability(
        VolumeCapability(claim.access_mode, claim.attachment_mode), volume.mount_options
    )


def volume_capability(wanted: VolumeCapability, options: MountOptions | None) -> dict[str, Any]:
    mode = {"access_mode": {"mode": ACCESS_MODES.get(wanted.access_mode, 0)}}
    if wanted.attachment_mode == "block-device":
        return {"block": {}, **mode}
    mount: dict[str, Any] = {}
    if options is not None:
        mount = {"fs_type": options.fs_type, "mount_flags": options.mount_flags or []}
    return {"mount": mount, **mode}
