"""A server's identity across restarts: its id, and the cluster key."""

from __future__ import annotations

from orchgit.ids import IdSource
from orchgit.server.config import ServerConfig
from orchgit.services.secrets.cluster_key import read_or_make_cluster_key


def server_id_of(config: ServerConfig, ids: IdSource) -> str:
    """Returns the server's id, which lasts as long as its data directory."""
    file = config.server_dir / "server_id"
    if file.exists():
        return file.read_text().strip()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    server_id = ids.new()
    file.write_text(server_id + "\n")
    return server_id


def cluster_key(config: ServerConfig) -> bytes:
    """Reads the cluster key, or makes one.

    A configured file has to exist: a key made here would differ on each server.
    """
    given = config.cluster_key_file
    return read_or_make_cluster_key(given or config.own_cluster_key_file, may_make=given is None)
