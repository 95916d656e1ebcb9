"""The container that holds the network namespace of an allocation, and does nothing else.

Its image is made here from a program of a few instructions, so nothing is pulled; with
`infra_image` the node's owner chooses another.
"""

from __future__ import annotations

import io
import platform
import struct
import tarfile
from typing import TYPE_CHECKING

from agent.drivers.base import CreatedNetwork, NetworkRequest
from agent.drivers.docker.container import ALLOC_LABEL, OWNER_LABEL, PAUSE_LABEL
from agent.drivers.docker.image_names import ImageName, parse_image_name
from orchgit.errors import DriverError

if TYPE_CHECKING:
    from agent.drivers.docker.engine import Engine

_OWN_IMAGE = "orchgit/pause:1"
_PROGRAMS = {
    # pause(2) again and again: mov eax, 34; syscall; jmp back
    "x86_64": (0x3E, bytes.fromhex("b822000000 0f05 ebf7")),
    # ppoll(2) of nothing: mov x0..x4, 0; mov x8, 73; svc 0; b back
    "aarch64": (
        0xB7,
        bytes.fromhex("000080d2 010080d2 020080d2 030080d2 040080d2 280980d2 010000d4 f9ffff17"),
    ),
}
_LOAD_ADDRESS = 0x400000
_ELF_HEADER, _PROGRAM_HEADER = 64, 56
_EXECUTABLE = 0o755


def pause_image(infra_image: str) -> ImageName:
    """The image of pause containers."""
    return parse_image_name(infra_image or _OWN_IMAGE)


def pause_name(alloc_id: str) -> str:
    """As Nomad calls it."""
    return f"nomad_init_{alloc_id}"


def create_pause_container(
    engine: Engine, wanted: NetworkRequest, owner: str, image_id: str
) -> CreatedNetwork:
    """Blocking. Returns the namespace of the container that is there, or of a new one.

    One that has ended (the engine was restarted) has lost its namespace, and is replaced.
    """
    request: dict[str, object] = {
        "Image": image_id,
        "Hostname": wanted.hostname,
        "Labels": {
            PAUSE_LABEL: wanted.alloc_id,
            ALLOC_LABEL: wanted.alloc_id,
            OWNER_LABEL: owner,
        },
        "HostConfig": {
            "NetworkMode": "none",
            "RestartPolicy": {"Name": "no"},
            "CapDrop": ["ALL"],
            "ReadonlyRootfs": True,
            "Memory": 64 << 20,
            "SecurityOpt": ["no-new-privileges"],
        },
    }
    name = pause_name(wanted.alloc_id)
    for _ in range(2):
        found = engine.inspect(engine.create(name, request))
        if found.status == "created":
            engine.start(found.id)
            found = engine.inspect(found.id)
        if found.status == "running":
            if not found.sandbox:
                raise DriverError(f"cannot find the network namespace of container {name}")
            return CreatedNetwork(namespace=found.sandbox, state={"container": found.id})
        engine.remove(found.id)
    raise DriverError(f"cannot make the network container {name}: it ends at once", True)


def remove_pause_container(engine: Engine, alloc_id: str) -> None:
    """Blocking."""
    for container in engine.find(f"{PAUSE_LABEL}={alloc_id}"):
        engine.remove(container)


def pause_image_archive() -> bytes:
    """A tar archive with the one program of the image, for this machine's kind of processor.

    DriverError where there is none.
    """
    machine = platform.machine()
    if machine not in _PROGRAMS:
        raise DriverError(
            f"cannot make the pause image for {machine}: set docker.infra_image to an image of it"
        )
    kind, code = _PROGRAMS[machine]
    entry = _LOAD_ADDRESS + _ELF_HEADER + _PROGRAM_HEADER
    size = _ELF_HEADER + _PROGRAM_HEADER + len(code)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack(
        "<HHIQQQIHHHHHH", 2, kind, 1, entry, _ELF_HEADER, 0, 0, _ELF_HEADER, 56, 1, 64, 0, 0
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _LOAD_ADDRESS, _LOAD_ADDRESS, size, size, 0x1000)
    program = header + segment + code
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        file = tarfile.TarInfo("pause")
        file.size, file.mode = len(program), _EXECUTABLE
        tar.addfile(file, io.BytesIO(program))
    return archive.getvalue()
