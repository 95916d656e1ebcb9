"""The cryptography of variables: AES-256-GCM for items and for the keys themselves, RSA to sign.

The only module on the server that uses `cryptography`. Ciphertext is bound to its `owner`: moved to
another variable, or to another key's row, it does not open.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from orchgit.errors import OrchgitError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

KEY_BYTES = 32
_NONCE_BYTES = 12
_NONCES_DRAWN = 256
_RSA_BITS = 2048


class SealError(OrchgitError):
    """Ciphertext does not open: another key, another owner, or it was changed."""


class KeyMaterial(msgspec.Struct):
    """The content of a root key: one key that seals variables, one that signs."""

    sealing: bytes
    signing: bytes
    """The RSA key, PKCS 8 in DER."""

    def __repr__(self) -> str:
        """Keeps the keys out of tracebacks and logs."""
        return "KeyMaterial(...)"


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The numbers of an RSA key as JSON web keys write them."""

    n: str
    e: str


class Sealer:
    """Seals and opens under one key of KEY_BYTES. Belongs to one thread."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._nonces = _random_nonces()

    def seal(self, owner: str, plain: bytes) -> bytes:
        """Returns a random nonce and the ciphertext: safe for four thousand million writes
        per key."""
        nonce = next(self._nonces)
        return nonce + self._cipher.encrypt(nonce, plain, owner.encode())

    def unseal(self, owner: str, sealed: bytes) -> bytes:
        """Returns the plain text. Raises SealError, which says nothing about the content."""
        nonce, ciphertext = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, ciphertext, owner.encode())
        except (InvalidTag, ValueError):
            raise SealError(f"cannot open what is sealed for {owner!r}") from None


class Signer:
    """Signs with the RSA key of a root key, as `RS256` of JSON web tokens says."""

    def __init__(self, der: bytes) -> None:
        """`der` is the key as PKCS 8; it is read when something is signed."""
        self._der = der

    def sign(self, data: bytes) -> bytes:
        """Takes about a millisecond."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding

        return self._key.sign(data, padding.PKCS1v15(), hashes.SHA256())

    @cached_property
    def _key(self) -> RSAPrivateKey:
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_der_private_key

        key = load_der_private_key(self._der, password=None)
        assert isinstance(key, RSAPrivateKey)
        return key


def is_signed(public: PublicKey, data: bytes, signature: bytes) -> bool:
    """Returns whether the private half of `public` made the signature over `data`."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    try:
        _public_key(public).verify(signature, data, padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        return False
    return True


@lru_cache(maxsize=32)
def _public_key(public: PublicKey) -> RSAPublicKey:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    return RSAPublicNumbers(_number(public.e), _number(public.n)).public_key()


def _random_nonces() -> Iterator[bytes]:
    """Draws many nonces at a time: each draw is a system call, during which other threads take
    over."""
    while True:
        block = os.urandom(_NONCES_DRAWN * _NONCE_BYTES)
        for at in range(0, len(block), _NONCE_BYTES):
            yield block[at : at + _NONCE_BYTES]


def new_key() -> bytes:
    return os.urandom(KEY_BYTES)


def new_material() -> tuple[KeyMaterial, PublicKey]:
    """Takes some 50 ms: call it in a thread."""
    # Most of this library's time to import, for what a cluster does once: not at every start.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    signing = rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS)
    der = signing.private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    numbers = signing.public_key().public_numbers()
    return KeyMaterial(new_key(), der), PublicKey(_base64_url(numbers.n), _base64_url(numbers.e))


def _number(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def _base64_url(number: int) -> str:
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
