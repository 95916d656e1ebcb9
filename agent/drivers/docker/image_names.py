"""What the name of an image says: registry, repository, tag or digest. Pure."""

from __future__ import annotations

import msgspec

DOCKER_HUB = "docker.io"


class ImageName(msgspec.Struct, frozen=True):
    """`given` is the job's text; `reference` a tag, or a digest with its kind (`sha256:...`)."""

    given: str
    local_name: str
    """As the engine finds it among its own: a name, or an id."""
    registry: str
    repository: str
    """With the registry, as the engine takes it."""
    reference: str
    platform: str = ""
    skip_tls_verify: bool = False
    """Whether the registry may have any certificate, or none (Podman)."""

    @property
    def is_latest(self) -> bool:
        """Whether the name stands for another image tomorrow: such images are always pulled."""
        return self.reference == "latest"


def parse_image_name(image: str, platform: str = "") -> ImageName:
    """Nomad's jobs may also write `docker://NAME` and `https://REGISTRY/NAME`."""
    name = image
    for scheme in ("docker://", "https://", "http://"):
        name = name.removeprefix(scheme)
    whole, at, digest = name.partition("@")
    before, colon, tag = whole.rpartition(":")
    has_tag = bool(colon) and "/" not in tag  # before the last slash a colon begins a port
    repository = before if has_tag else whole
    reference = digest if at else (tag if has_tag else "latest")
    first, slash, _ = repository.partition("/")
    named = bool(slash) and ("." in first or ":" in first or first == "localhost")
    registry = first if named else DOCKER_HUB
    return ImageName(image, name, registry, repository, reference, platform)
