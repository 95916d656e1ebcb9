"""Ports and volumes of a group."""

from __future__ import annotations

from jobspec.rules.findings import Findings
from orchgit.model.group import TaskGroup
from orchgit.model.resources import NetworkResource, Port
from orchgit.model.volume import VolumeRequest

_MAX_PORT = 65535
_SINGLE = ("single-node-reader-only", "single-node-writer", "single-node-single-writer",
           "single-node-multi-writer")  # fmt: skip
_ACCESS_MODES = (*_SINGLE, "multi-node-reader-only", "multi-node-single-writer",
                 "multi-node-multi-writer")  # fmt: skip


class _Ports:
    """Labels and static ports already taken in the group, and by whom."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.labels: dict[str, str] = {}
        self.static: dict[tuple[str, int], str] = {}

    def add(self, network: NetworkResource, owner: str) -> None:
        for port in [*(network.reserved_ports or ()), *(network.dynamic_ports or ())]:
            self._label(port, owner)
            self._values(port, owner)
            if port.ignore_collision and network.mode not in ("", "host"):
                self.findings.add(
                    f'Port "{port.label}" collision may not be ignored on non-host network mode '
                    f'"{network.mode}"',
                    "Networks",
                )

    def _label(self, port: Port, owner: str) -> None:
        taken = self.labels.get(port.label)
        self.findings.check(
            taken is not None, f"Port label {port.label} already in use by {taken}", "Networks"
        )
        self.labels.setdefault(port.label, owner)

    def _values(self, port: Port, owner: str) -> None:
        if port.value > _MAX_PORT:
            self.findings.add(
                f"Port {port.label} ({port.value}) cannot be greater than {_MAX_PORT}", "Networks"
            )
        elif port.value > 0:
            key = (port.host_network or "default", port.value)
            taken = self.static.get(key)
            self.findings.check(
                taken is not None and not port.ignore_collision,
                f"Static port {port.value} already reserved by {taken}",
                "Networks",
            )
            self.static.setdefault(key, f"{owner}:{port.label}")
        if port.to < -1:
            self.findings.add(
                f'Port "{port.label}" cannot be mapped to negative value {port.to}', "Networks"
            )
        elif port.to > _MAX_PORT:
            self.findings.add(
                f'Port "{port.label}" cannot be mapped to a port ({port.to}) greater than '
                f"{_MAX_PORT}",
                "Networks",
            )


def check_networks(findings: Findings, group: TaskGroup) -> None:
    ports = _Ports(findings)
    for network in group.networks or ():
        ports.add(network, "taskgroup network")
    for task in group.tasks:
        for network in task.resources.networks or ():
            ports.add(network, f"{task.name} network")


def check_volume(
    findings: Findings, volume: VolumeRequest, job_type: str, count: int, canaries: int
) -> None:
    findings.check(not volume.source, "volume has an empty source", "Source")
    if volume.per_alloc:
        _per_alloc(findings, volume, job_type, canaries)
    if volume.type == "host":
        _host(findings, volume)
    elif volume.type == "csi":
        _csi(findings, volume, count)


def _per_alloc(findings: Findings, volume: VolumeRequest, job_type: str, canaries: int) -> None:
    findings.check(
        job_type in ("system", "sysbatch"),
        "volume cannot be per_alloc for system or sysbatch jobs",
        "PerAlloc",
    )
    findings.check(canaries > 0, "volume cannot be per_alloc when canaries are in use", "PerAlloc")
    findings.check(
        volume.sticky, "volume cannot be per_alloc and sticky at the same time", "Sticky"
    )


def _host(findings: Findings, volume: VolumeRequest) -> None:
    findings.check(
        volume.mount_options is not None, "host volumes cannot have mount options", "MountOptions"
    )
    mode = volume.access_mode
    if mode and mode not in _SINGLE:
        findings.add(f"host volumes cannot be mounted with {mode} access mode", "AccessMode")
    _reader_only(findings, volume)


def _reader_only(findings: Findings, volume: VolumeRequest) -> None:
    mode = volume.access_mode
    findings.check(
        mode in ("single-node-reader-only", "multi-node-reader-only") and not volume.read_only,
        f"{mode} volumes must be read-only",
        "ReadOnly",
    )


def _csi(findings: Findings, volume: VolumeRequest, count: int) -> None:
    mode = volume.access_mode
    findings.check(volume.sticky, "CSI volumes cannot be sticky", "Sticky")
    findings.check(
        not volume.attachment_mode, "CSI volumes must have an attachment mode", "AttachmentMode"
    )
    if not mode:
        findings.add("CSI volumes must have an access mode", "AccessMode")
    elif mode not in _ACCESS_MODES:
        findings.add(f"invalid access mode: {mode}", "AccessMode")
    findings.check(
        volume.attachment_mode == "block-device" and volume.mount_options is not None,
        "block devices cannot have mount options",
        "MountOptions",
    )
    _reader_only(findings, volume)
    findings.check(
        mode in ("single-node-reader-only", "single-node-writer")
        and count > 1
        and not volume.per_alloc,
        f"volume with {mode} access mode allows only one reader or writer",
        "AccessMode",
    )
    findings.check(
        mode == "multi-node-single-writer"
        and count > 1
        and not volume.per_alloc
        and not volume.read_only,
        f"volume with {mode} access mode allows only one writer",
        "AccessMode",
    )
