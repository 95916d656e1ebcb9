"""How much of a listener one client may take, and how long it may be about it (`limits`)."""

from __future__ import annotations

from dataclasses import dataclass

from orchgit.errors import InvalidInputError

_MAX_HANDSHAKE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The keys of Nomad's `limits` block. 0 switches a limit off. Raises InvalidInputError."""

    http_max_conns_per_client: int = 100
    """Connections of HTTP that one address may have open at a time."""
    https_handshake_timeout_s: float = 5.0
    rpc_handshake_timeout_s: float = 5.0
    rpc_max_conns_per_client: int = 100
    """Connections of RPC on which one address may have calls at a time."""

    def __post_init__(self) -> None:
        problems = [
            f"limits.{name} must not be negative"
            for name, value in (
                ("http_max_conns_per_client", self.http_max_conns_per_client),
                ("rpc_max_conns_per_client", self.rpc_max_conns_per_client),
            )
            if value < 0
        ]
        problems += [
            f"limits.{name} must be between 0s and 1h"
            for name, value in (
                ("https_handshake_timeout", self.https_handshake_timeout_s),
                ("rpc_handshake_timeout", self.rpc_handshake_timeout_s),
            )
            if not 0 <= value <= _MAX_HANDSHAKE_S
        ]
        if problems:
            raise InvalidInputError(f"cannot use the limits: {'; '.join(problems)}")
