"""NVIDIA devices, where the driver and its Python binding are installed.

The only door of pynvml. Without the driver's control device nothing is imported.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from orchgit.model.node import NodeDevice, NodeDeviceInstance

_CONTROL_DEVICE = Path("/dev/nvidiactl")
_MIB = 1 << 20


def devices() -> list[NodeDevice]:
    """One device per model, with an instance per card."""
    if not _CONTROL_DEVICE.exists() or find_spec("pynvml") is None:
        return []
    import pynvml  # only on machines that have one

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        return _read(pynvml)
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()


def _read(nvml: Any) -> list[NodeDevice]:
    found: dict[str, NodeDevice] = {}
    for index in range(nvml.nvmlDeviceGetCount()):
        card = nvml.nvmlDeviceGetHandleByIndex(index)
        name = _text(nvml.nvmlDeviceGetName(card))
        model = found.setdefault(
            name,
            NodeDevice(
                vendor="nvidia",
                type="gpu",
                name=name,
                instances=[],
                attributes={
                    "memory": {
                        "Int": nvml.nvmlDeviceGetMemoryInfo(card).total // _MIB,
                        "Unit": "MiB",
                    },
                    "driver_version": {"String": _text(nvml.nvmlSystemGetDriverVersion())},
                },
            ),
        )
        bus = _text(nvml.nvmlDeviceGetPciInfo(card).busId)
        model.instances.append(
            NodeDeviceInstance(
                id=_text(nvml.nvmlDeviceGetUUID(card)), healthy=True, locality={"PciBusID": bus}
            )
        )
    return list(found.values())


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
