"""What the use cases of access control need: the replicated state, the root keys, the settings."""

from __future__ import annotations

from dataclasses import dataclass

from orchgit.model.acl import SealedSecret
from orchgit.services.acl.providers import IdentityProviders
from orchgit.services.acl.settings import AclSettings
from orchgit.services.context import UseCaseContext
from orchgit.services.secrets.keyring import Keyring


@dataclass(frozen=True, slots=True)
class AclContext:
    """The first argument of this package's functions."""

    context: UseCaseContext
    keyring: Keyring
    settings: AclSettings
    providers: IdentityProviders

    async def sealed(self, owner: str, plain: bytes) -> SealedSecret:
        """Returns `plain` sealed for `owner` with the active root key."""
        key = await self.keyring.active_key(self.context)
        return SealedSecret(key_id=key.key_id, sealed=self.keyring.seal(key, owner, plain))

    def unsealed(self, owner: str, secret: SealedSecret) -> bytes:
        return self.keyring.unseal_secret(owner, secret)
