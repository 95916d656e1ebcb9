"""Sprig's functions of keys, certificates and passwords; their libraries are loaded when used."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any

from agent.templates.helpers.encodings import base64_decoded
from orchgit.errors import InvalidInputError
from orchgit.go_templates.functions import GoFunction, fn, text_fn
from orchgit.go_templates.values import GoStruct, from_bytes, to_bytes

_SEED = b"com.lyndir.masterpassword"
_LONG_PARTS = ("Cvcv", "Cvcc")


def _long_shapes() -> list[str]:
    """The shapes of long passwords: three groups of four, and a digit and a sign after one."""
    plain, double = _LONG_PARTS
    kinds = [
        (plain, plain, plain), (double, plain, plain), (plain, double, plain),
        (plain, plain, double), (double, double, plain), (plain, double, double),
        (double, plain, double),
    ]  # fmt: skip
    return [
        "".join(part + ("no" if position == place else "") for position, part in enumerate(kind))
        for kind in kinds
        for place in range(3)
    ]


_SHAPES = {
    "maximum": ["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
    "long": _long_shapes(),
    "medium": ["CvcnoCvc", "CvcCvcno"],
    "short": ["Cvcn"],
    "basic": ["aaanaaan", "aannaaan", "aaannaaa"],
    "pin": ["nnnn"],
}
_UPPER, _LOWER = "BCDFGHJKLMNPQRSTVWXYZ", "bcdfghjklmnpqrstvwxyz"
_CHARACTERS = {
    "V": "AEIOU",
    "C": _UPPER,
    "v": "aeiou",
    "c": _LOWER,
    "A": f"AEIOU{_UPPER}",
    "a": f"AEIOUaeiou{_UPPER}{_LOWER}",
    "n": "0123456789",
    "o": "@&%?,=[]_:-+*$#!'^~;()/.",
    "x": f"AEIOUaeiou{_UPPER}{_LOWER}0123456789!@#$%^&*()",
}


def _derived(counter: int, kind: str, password: str, user: str, site: str) -> str:
    """The password of the Master Password algorithm (version 3)."""
    shapes = _SHAPES.get(kind)
    if shapes is None:
        return f"cannot find password template {kind}"
    name, place = to_bytes(user), to_bytes(site)
    salt = _SEED + len(name).to_bytes(4, "big") + name
    limits = {"n": 32768, "r": 8, "p": 2, "maxmem": 64 << 20, "dklen": 64}
    key = hashlib.scrypt(to_bytes(password), salt=salt, **limits)
    text = _SEED + len(place).to_bytes(4, "big") + place + counter.to_bytes(4, "big")
    seed = hmac.new(key, text, "sha256").digest()
    shape = shapes[seed[0] % len(shapes)]
    sets = [_CHARACTERS[each] for each in shape]
    return "".join(each[byte % len(each)] for each, byte in zip(sets, seed[1:], strict=False))


def _bcrypt(text: str) -> str:
    import bcrypt

    return bcrypt.hashpw(to_bytes(text)[:72], bcrypt.gensalt(10, b"2a")).decode()


def _htpasswd(user: str, password: str) -> str:
    return "invalid username: contains ':'" if ":" in user else f"{user}:{_bcrypt(password)}"


def _new_key(kind: str) -> Any:
    from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa

    match kind:
        case "" | "rsa":
            return rsa.generate_private_key(65537, 2048 if not kind else 4096)
        case "dsa":
            return dsa.generate_private_key(2048)
        case "ecdsa":
            return ec.generate_private_key(ec.SECP256R1())
        case "ed25519":
            return ed25519.Ed25519PrivateKey.generate()
    raise InvalidInputError(f"Unknown type {kind}")


def _pem(key: Any) -> str:
    from cryptography.hazmat.primitives import serialization

    name = type(key).__name__
    traditional = "Ed25519" not in name
    form = serialization.PrivateFormat
    data: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        form.TraditionalOpenSSL if traditional else form.PKCS8,
        serialization.NoEncryption(),
    )
    return data.decode()


def _private_key(kind: str) -> str:
    try:
        return _pem(_new_key(kind))
    except InvalidInputError as error:
        return str(error)


class Certificate(GoStruct):
    go_type = "sprig.certificate"

    def __init__(self, cert: str, key: str) -> None:
        self.cert = cert
        self.key = key

    def go_fields(self) -> Mapping[str, Any]:
        return {"Cert": self.cert, "Key": self.key}


def _issued(
    name: str,
    ips: Any,
    names: Any,
    days: int,
    key_text: str = "",
    authority: Certificate | None = None,
    is_authority: bool = False,
) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def subject_of(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    key: Any = (
        serialization.load_pem_private_key(to_bytes(key_text), None) if key_text else _new_key("")
    )
    issuer, signer = subject_of(name), key
    if authority is not None:
        issuer = x509.load_pem_x509_certificate(to_bytes(authority.cert)).subject
        signer = serialization.load_pem_private_key(to_bytes(authority.key), None)
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject_of(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    others: list[x509.GeneralName] = [x509.IPAddress(ip_address(each)) for each in ips or ()]
    others += [x509.DNSName(each) for each in names or ()]
    if others:
        builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
    named = type(signer).__name__
    algorithm = None if "Ed25519" in named else hashes.SHA256()
    cert = builder.sign(signer, algorithm)
    return Certificate(cert.public_bytes(serialization.Encoding.PEM).decode(), _pem(key))


def _custom(cert: str, key: str) -> Certificate:
    return Certificate(_decoded(cert, "certificate"), _decoded(key, "private key"))


def _decoded(text: str, what: str) -> str:
    try:
        return base64_decoded(text)
    except InvalidInputError:
        raise InvalidInputError(f"unable to decode base64 {what}") from None


def _cipher(password: str, start: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = to_bytes(password)[:32].ljust(32, b"\0")
    return Cipher(algorithms.AES(key), modes.CBC(start))


def _encrypted(password: str, text: str) -> str:
    data, start = to_bytes(text), os.urandom(16)
    missing = 16 - len(data) % 16
    encryptor = _cipher(password, start).encryptor()
    body = encryptor.update(data + bytes([missing]) * missing) + encryptor.finalize()
    return base64.b64encode(start + body).decode()


def _decrypted(password: str, text: str) -> str:
    if not text:
        return ""
    try:
        data = to_bytes(base64_decoded(text))
        decryptor = _cipher(password, data[:16]).decryptor()
        body = decryptor.update(data[16:]) + decryptor.finalize()
    except ValueError as error:
        raise InvalidInputError(str(error)) from None
    return from_bytes(body[: -body[-1]])


_CERTIFICATE, _ANYS = "sprig.certificate", "[]interface {}"
CRYPTO: dict[str, GoFunction] = {
    "bcrypt": text_fn(_bcrypt),
    "htpasswd": text_fn(_htpasswd, 2),
    "genPrivateKey": text_fn(_private_key),
    "derivePassword": fn(_derived, "int", "string", "string", "string", "string"),
    "buildCustomCert": text_fn(_custom, 2),
    "genCA": fn(
        lambda name, days: _issued(name, (), (), days, is_authority=True), "string", "int"
    ),
    "genCAWithKey": fn(
        lambda name, days, key: _issued(name, (), (), days, key, is_authority=True),
        "string",
        "int",
        "string",
    ),
    "genSelfSignedCert": fn(_issued, "string", _ANYS, _ANYS, "int"),
    "genSelfSignedCertWithKey": fn(_issued, "string", _ANYS, _ANYS, "int", "string"),
    "genSignedCert": fn(
        lambda name, ips, names, days, by: _issued(name, ips, names, days, "", by),
        "string", _ANYS, _ANYS, "int", _CERTIFICATE,
    ),
    "genSignedCertWithKey": fn(
        lambda name, ips, names, days, by, key: _issued(name, ips, names, days, key, by),
        "string", _ANYS, _ANYS, "int", _CERTIFICATE, "string",
    ),
    "encryptAES": text_fn(_encrypted, 2),
    "decryptAES": text_fn(_decrypted, 2),
}  # fmt: skip
