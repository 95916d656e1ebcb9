"""The device files by which a task uses one part of a divided GPU (MIG).

A part is a GPU instance and a compute instance in it. Each is a right of its own, with a file below
/dev/nvidia-caps, whose number the kernel's driver tells.
"""

from __future__ import annotations

from pathlib import Path

from agent.devices.nvml import GpuFacts
from orchgit.errors import DriverError


def part_files(card: GpuFacts, proc_dir: Path) -> list[str]:
    """Returns names below /dev; none for a card that is whole. Raises DriverError."""
    if card.mig is None:
        return []
    gpu_instance, compute_instance = card.mig
    instance = proc_dir / "capabilities" / f"gpu{card.minor}" / "mig" / f"gi{gpu_instance}"
    files = []
    for right in (instance / "access", instance / f"ci{compute_instance}" / "access"):
        try:
            told = dict(line.split(":", 1) for line in right.read_text().splitlines())
            files.append(f"nvidia-caps/nvidia-cap{int(told['DeviceFileMinor'])}")
        except (OSError, ValueError, KeyError) as error:
            raise DriverError(
                f"cannot give GPU {card.id} to the task: {right} does not tell its device file "
                f"({error}); see whether the part still exists (nvidia-smi -L)",
                recoverable=True,
            ) from None
    return files
