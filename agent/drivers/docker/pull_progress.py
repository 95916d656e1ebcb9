"""How far the pull of an image has come, from the engine's messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MIB = 1 << 20
_DONE = ("Pull complete", "Already exists")
_LAYER_STATES = (
    *("Pulling fs layer", "Waiting", "Downloading", "Verifying Checksum", "Download complete"),
    *("Extracting", *_DONE),
)


class PullProgress:
    """Written by the thread that pulls, read by the event loop."""

    def __init__(self) -> None:
        self._layers: dict[str, str] = {}
        self._received: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self.messages = 0

    def take(self, message: Mapping[str, Any]) -> None:
        self.messages += 1
        layer, status = str(message.get("id", "")), str(message.get("status", ""))
        if not layer or status not in _LAYER_STATES:
            return
        detail = message.get("progressDetail") or {}
        if status == "Downloading":
            self._received[layer] = int(detail.get("current") or 0)
            self._sizes[layer] = int(detail.get("total") or 0)
        elif status in ("Download complete", *_DONE) and layer in self._sizes:
            self._received[layer] = self._sizes[layer]
        self._layers[layer] = status

    def __str__(self) -> str:
        """`2/3 layers, 12.0/40.5 MiB`."""
        layers = list(self._layers.values())
        done = sum(status in _DONE for status in layers)
        received = sum(list(self._received.values())) / _MIB
        total = sum(list(self._sizes.values())) / _MIB
        return f"{done}/{len(layers)} layers, {received:.1f}/{total:.1f} MiB"
