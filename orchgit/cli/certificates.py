"""Makes an authority of the cluster's own and the certificates it signs, as PEM.

Both keys are ECDSA on P-256. A certificate is valid only for the names in it: servers are checked
against the address at which they are reached.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from orchgit.errors import InvalidInputError

_BACKDATED = timedelta(minutes=5)
"""Clocks of other machines may be a little behind."""


class CertificateRole(StrEnum):
    SERVER = "server"
    CLIENT = "client"
    CLI = "cli"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, as PEM."""

    cert: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class AuthorityRequest:
    """What to make. A `constrained` authority may sign only for these domains, localhost and
    127.0.0.1.
    """

    common_name: str
    days: int
    domains: Sequence[str]
    constrained: bool = False
    organization: str = "orchgit"
    organizational_unit: str = ""
    country: str = ""
    province: str = ""
    locality: str = ""
    street_address: str = ""
    postal_code: str = ""


@dataclass(frozen=True, slots=True)
class CertificateRequest:
    role: CertificateRole
    region: str
    domain: str
    days: int
    dns_names: Sequence[str] = ()
    ip_addresses: Sequence[str] = ()


def make_authority(request: AuthorityRequest, now: datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _authority_name(request)
    public = key.public_key()
    builder = (
        _builder(name, name, public, request.days, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
    )
    if request.constrained:
        names = [x509.DNSName(name) for name in (*request.domains, "localhost")]
        own = x509.IPAddress(ipaddress.ip_network("127.0.0.1/32"))
        allowed = x509.NameConstraints([*names, own], excluded_subtrees=None)
        builder = builder.add_extension(allowed, critical=True)
    return Pair(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key))


def make_certificate(authority: Pair, request: CertificateRequest, now: datetime) -> Pair:
    """Returns a certificate signed by the authority.

    Raises InvalidInputError if the authority's files do not belong together, or have expired.
    """
    issuer, issuer_key = _authority(authority, now)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, role_name(request))])
    public = key.public_key()
    builder = (
        _builder(subject, issuer.subject, public, request.days, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(_purposes(request.role)), critical=False)
        .add_extension(x509.SubjectAlternativeName(_names(request)), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    return Pair(_pem(builder.sign(issuer_key, hashes.SHA256())), _key_pem(key))


def role_name(request: CertificateRequest) -> str:
    """`server.global.orchgit`: what the certificate is for, as its first name."""
    return f"{request.role}.{request.region}.{request.domain}"


def read_certificate(data: bytes, what: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError as error:
        raise InvalidInputError(
            f"cannot read {what}: it is no certificate in PEM format ({error})"
        ) from error


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int, now: datetime
) -> x509.CertificateBuilder:
    if days < 1:
        raise InvalidInputError(f"cannot make a certificate for {days} days: give -days 1 or more")
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + timedelta(days=days))
    )


def _authority_name(request: AuthorityRequest) -> x509.Name:
    parts = (
        (NameOID.COUNTRY_NAME, request.country),
        (NameOID.POSTAL_CODE, request.postal_code),
        (NameOID.STATE_OR_PROVINCE_NAME, request.province),
        (NameOID.LOCALITY_NAME, request.locality),
        (NameOID.STREET_ADDRESS, request.street_address),
        (NameOID.ORGANIZATION_NAME, request.organization),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, request.organizational_unit),
        (NameOID.COMMON_NAME, request.common_name),
    )
    try:
        return x509.Name([x509.NameAttribute(kind, text) for kind, text in parts if text])
    except ValueError as error:
        raise InvalidInputError(f"cannot name the authority so: {error}") from error


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _purposes(role: CertificateRole) -> list[x509.ObjectIdentifier]:
    """Returns the uses of a role's certificate.

    Servers call each other, and a client's agent answers for its node's logs. The command line only
    asks.
    """
    asks, answers = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
    return [asks] if role is CertificateRole.CLI else [asks, answers]


def _names(request: CertificateRequest) -> list[x509.GeneralName]:
    local = () if request.role is CertificateRole.CLI else ("localhost",)
    own = () if request.role is CertificateRole.CLI else ("127.0.0.1",)
    dns = dict.fromkeys((role_name(request), *local, *request.dns_names))
    addresses = dict.fromkeys((*own, *request.ip_addresses))
    try:
        return [
            *(x509.DNSName(name) for name in dns),
            *(x509.IPAddress(ipaddress.ip_address(each)) for each in addresses),
        ]
    except ValueError as error:
        raise InvalidInputError(f"cannot make a certificate for these names: {error}") from error


def _authority(pair: Pair, now: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    certificate = read_certificate(pair.cert, "the authority's certificate (-ca)")
    try:
        key = serialization.load_pem_private_key(pair.key, password=None)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"cannot read the authority's key (-key): {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidInputError(
            "cannot sign with this authority's key: only keys of elliptic curves are supported; "
            "make an authority with `orchgit tls ca create`"
        )
    if key.public_key() != certificate.public_key():
        raise InvalidInputError(
            "cannot sign with this authority: its key (-key) is not that of its certificate (-ca)"
        )
    if not is_authority(certificate):
        raise InvalidInputError("cannot sign with -ca: it is not the certificate of an authority")
    if certificate.not_valid_after_utc <= now:
        raise InvalidInputError(
            f"cannot sign with this authority: it is over since {certificate.not_valid_after_utc}; "
            "make a new one with `orchgit tls ca create`"
        )
    return certificate, key


def is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def alternative_names(certificate: x509.Certificate) -> tuple[list[str], list[str]]:
    """Returns (DNS names, addresses) for which the certificate is valid."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return [], []
    addresses = [str(each) for each in names.get_values_for_type(x509.IPAddress)]
    return names.get_values_for_type(x509.DNSName), addresses


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
