"""Variables as they are stored, with sealed items and a lock; and the root keys that seal them.

No struct holds a secret in plain: items and key material are ciphertext (docs/security.md).
"""

from __future__ import annotations

from enum import StrEnum

from orchgit.errors import ConflictError
from orchgit.model.base import Model


class VariableLock(Model):
    """The holder knows `id`; the lock ends by release, or when not renewed for `ttl_ns`.

    `renew_index` is that of the entry that acquired or last renewed it: the leader may only end a
    lock that was not renewed since it looked.
    """

    id: str = ""
    ttl_ns: int = 0
    lock_delay_ns: int = 0
    renew_index: int = 0


class StoredVariable(Model):
    """`sealed` is the ciphertext of the items under the root key `key_id`.

    After a lock ran out, nobody can acquire it before `locked_out_until_ns`: its former holder may
    still be at work.
    """

    namespace: str = "default"
    path: str = ""
    key_id: str = ""
    sealed: bytes = b""
    lock: VariableLock | None = None
    locked_out_until_ns: int = 0
    create_time_ns: int = 0
    modify_time_ns: int = 0
    create_index: int = 0
    modify_index: int = 0

    @property
    def key(self) -> str:
        """Unique in the cluster: a namespace has no slash."""
        return variable_key(self.namespace, self.path)

    @property
    def lock_id(self) -> str:
        return self.lock.id if self.lock else ""


def variable_key(namespace: str, path: str) -> str:
    return f"{namespace}/{path}"


class VariableConflictError(ConflictError):
    """The condition of a write did not hold; `current` is the stored variable, or None."""

    def __init__(self, message: str, current: StoredVariable | None) -> None:
        super().__init__(message)
        self.current = current


class RootKeyState(StrEnum):
    ACTIVE = "active"
    INACTIVE = "inactive"


class RootKey(Model):
    """`wrapped` is the key material, encrypted with the cluster's key, which is never replicated.

    `public_n` and `public_e` are the signing key's public half, as a JSON web key writes them.
    """

    key_id: str = ""
    algorithm: str = "aes256-gcm"
    state: str = RootKeyState.ACTIVE
    wrapped: bytes = b""
    public_n: str = ""
    public_e: str = ""
    create_time_ns: int = 0
    publish_time_ns: int = 0
    create_index: int = 0
    modify_index: int = 0
