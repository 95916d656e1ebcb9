"""Hashes, bcrypt, RSA and UUIDs. All imports of their libraries wait for the first use."""

from __future__ import annotations

from jobspec.evaluation.numbers import Number
from jobspec.functions.signature import (
    ArgumentError,
    CallContext,
    Function,
    FunctionError,
    Param,
    text,
)

MAX_BCRYPT_COST = 12
"""0.2 s; each more doubles it."""
_STEPS_OF_BCRYPT_4 = 800
"""Of cost 4, which takes 1 ms; the work doubles with each."""


def _hash(name: str) -> Function:
    def run(value: str) -> str:
        import hashlib  # loads OpenSSL: kept off the start path

        return hashlib.new(name, value.encode(), usedforsecurity=False).hexdigest()

    return Function(run, (text(),))


def _bcrypt(context: CallContext, value: str, *cost: Number) -> str:
    import base64  # kept off the start path with bcrypt below

    import bcrypt  # few job files use it

    rounds = cost[0] if cost else 10
    if type(rounds) is not int or not 4 <= rounds <= 31 or len(cost) > 1:
        raise ArgumentError(1, "cost must be a whole number between 4 and 31")
    if rounds > MAX_BCRYPT_COST:
        raise ArgumentError(
            1,
            f"a cost above {MAX_BCRYPT_COST} takes too long while a job file is read; write the "
            "hash itself, or keep it in a variable",
        )
    context.budget.charge(_STEPS_OF_BCRYPT_4 << (rounds - 4))
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    own = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    salt = base64.b64encode(context.random_bytes(16)).rstrip(b"=")
    salt = salt.translate(bytes.maketrans(alphabet, own))[:22]
    prefix = f"$2a${rounds:02d}$".encode()
    if len(value.encode()) > 72:
        raise FunctionError("error occurred generating password: longer than 72 bytes")
    return bcrypt.hashpw(value.encode(), prefix + salt).decode()


def _rsadecrypt(ciphertext: str, key_text: str) -> str:
    import base64  # kept off the start path with cryptography below
    import binascii

    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        data = base64.b64decode(ciphertext, validate=True)
    except binascii.Error:
        raise FunctionError("failed to decode input: cipher text must be base64") from None
    try:
        key = load_pem_private_key(key_text.encode(), password=None)
    except (ValueError, TypeError):
        raise FunctionError("invalid private key") from None
    if not isinstance(key, RSAPrivateKey):
        raise FunctionError("invalid private key: an RSA key is required")
    try:
        return key.decrypt(data, PKCS1v15()).decode()
    except ValueError:
        raise FunctionError("failed to decrypt") from None


def _uuidv4(context: CallContext) -> str:
    import uuid  # kept off the start path

    return str(uuid.UUID(bytes=context.random_bytes(16), version=4))


def _uuidv5(namespace: str, name: str) -> str:
    import uuid  # kept off the start path

    known = {
        "dns": uuid.NAMESPACE_DNS,
        "url": uuid.NAMESPACE_URL,
        "oid": uuid.NAMESPACE_OID,
        "x500": uuid.NAMESPACE_X500,
    }
    try:
        base = known.get(namespace) or uuid.UUID(namespace)
    except ValueError:
        raise FunctionError(
            f"uuidv5() doesn't support namespace {namespace} "
            f"(invalid UUID length: {len(namespace)})"
        ) from None
    return str(uuid.uuid5(base, name))


FUNCTIONS = {
    "bcrypt": Function(_bcrypt, (text(),), rest=Param("cost", "number"), in_context=True),
    "md5": _hash("md5"),
    "rsadecrypt": Function(_rsadecrypt, (text("ciphertext"), text("privatekey"))),
    "sha1": _hash("sha1"),
    "sha256": _hash("sha256"),
    "sha512": _hash("sha512"),
    "uuidv4": Function(_uuidv4, in_context=True),
    "uuidv5": Function(_uuidv5, (text("namespace"), text("name"))),
}
