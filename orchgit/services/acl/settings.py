"""What the block `acl` of the configuration sets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orchgit.clock import SECOND_NS

RESET_FILE = "acl-bootstrap-reset"


@dataclass(frozen=True, slots=True)
class AclSettings:
    """Access control of one server. All servers of a cluster should have the same settings."""

    enabled: bool = False
    token_min_expiration_ttl_ns: int = 60 * SECOND_NS
    token_max_expiration_ttl_ns: int = 24 * 3600 * SECOND_NS
    reset_file: Path | None = None
    """Where the leader looks for the index that allows another bootstrap; None: nowhere."""
