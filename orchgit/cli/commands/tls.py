"""`orchgit tls`: the cluster's own authority and the certificates that it signs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orchgit.cli.command import cli_group
from orchgit.cli.options import formatted, option, option_field, options_of
from orchgit.cli.printing.output import pairs
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.errors import InvalidInputError

if TYPE_CHECKING:
    from cryptography import x509

DOMAIN = "orchgit"


@cli_group("tls")
def tls() -> None:
    """Certificates, with which servers and agents know each other.

    \b
    orchgit tls ca create
    orchgit tls cert create -server -additional-ipaddress 10.0.0.1
    orchgit tls cert create -client
    orchgit tls cert create -cli
    """


@tls.group("ca")
def ca() -> None:
    """The authority that signs the cluster's certificates."""


@tls.group("cert")
def cert() -> None:
    """Certificates of servers, clients and the command line."""


@ca.command("create", ignores_extra=1)
@option("days", type=int, default=1825, show_default=True, help="How long it is valid.")
@option("domain", default=DOMAIN, show_default=True, help="Domain of the names it signs for.")
@option("additional-domain", multiple=True, help="With -name-constraint: further domains.")
@option("name-constraint", is_flag=True, help="It can sign for its domains and loop-back only.")
@option("common-name", default="", help="Name of the authority.")
@option("organization", default="orchgit", help="Organization in its name.")
@option("organizational-unit", default="", help="Organizational unit in its name.")
@option("country", default="", help="Country in its name, two letters.")
@option("province", default="", help="Province in its name.")
@option("locality", default="", help="Locality in its name.")
@option("street-address", default="", help="Street address in its name.")
@option("postal-code", default="", help="Postal code in its name.")
def ca_create(
    days: int,
    domain: str,
    additional_domain: tuple[str, ...],
    name_constraint: bool,
    common_name: str,
    **address: str,
) -> None:
    """Make an authority in this directory: DOMAIN-agent-ca.pem and DOMAIN-agent-ca-key.pem.

    The certificate goes to every server and agent. The key signs new certificates: keep it apart,
    no running program needs it.
    """
    # cryptography's X.509 takes 50 ms to import; only these commands need it.
    from orchgit.cli.certificates import AuthorityRequest, make_authority

    if additional_domain and not name_constraint:
        raise InvalidInputError(
            "cannot use -additional-domain: an authority without -name-constraint signs for any"
        )
    request = AuthorityRequest(
        common_name=common_name or f"Agent CA of {domain}",
        days=days,
        domains=(domain, *additional_domain),
        constrained=name_constraint,
        **address,
    )
    pair = make_authority(request, datetime.now(UTC))
    cert_file, key_file = Path(f"{domain}-agent-ca.pem"), Path(f"{domain}-agent-ca-key.pem")
    _write(cert_file, pair.cert, key_file, pair.key)
    click.echo(f"==> CA certificate saved to {cert_file}")
    click.echo(f"==> CA key saved to {key_file}; keep it apart from the cluster")
    click.echo("    Next, once per server, with the address at which the others reach it:")
    flag = "" if domain == DOMAIN else f"-domain {domain} "
    click.echo(f"    orchgit tls cert create -server {flag}-additional-ipaddress ADDRESS")


@ca.command("info")
@formatted
@click.argument("file", default=f"{DOMAIN}-agent-ca.pem")
def ca_info(file: str, output: OutputFormat) -> None:
    """What is in an authority's certificate."""
    _show(Path(file), output)


@dataclass(frozen=True, slots=True)
class CertificateOptions:
    server: bool = option_field("server", is_flag=True, help="For a server.")
    client: bool = option_field("client", is_flag=True, help="For an agent that runs tasks.")
    cli: bool = option_field("cli", is_flag=True, help="For the command line.")
    days: int = option_field(
        "days", type=int, default=365, show_default=True, help="How long it is valid."
    )
    domain: str = option_field(
        "domain", default=DOMAIN, show_default=True, help="Domain of its names."
    )
    region: str = option_field(
        "region", "cluster-region", default="global", show_default=True, help="Region."
    )
    names: tuple[str, ...] = option_field(
        "additional-dnsname", multiple=True, help="A further name it is reached by; repeatable."
    )
    addresses: tuple[str, ...] = option_field(
        "additional-ipaddress", multiple=True, help="An address it is reached at; repeatable."
    )
    ca_file: str = option_field("ca", default="", help="The authority's certificate.")
    key_file: str = option_field("key", default="", help="The authority's key.")
    out: str = option_field(
        "out", default="", help="Write OUT.pem and OUT-key.pem [REGION-ROLE-DOMAIN]."
    )


@cert.command("create")
@options_of(CertificateOptions)
def cert_create(options: CertificateOptions) -> None:
    """Make a certificate in this directory, signed by the authority that is there.

    Who is connected to is checked against the address: name the host of a server's advertised
    addresses, and of an agent's that serves HTTPS, by -additional-ipaddress or -additional-dnsname.
    """
    # As above: only these commands need it.
    from orchgit.cli.certificates import CertificateRequest, CertificateRole, Pair, make_certificate

    chosen = {
        CertificateRole.SERVER: options.server,
        CertificateRole.CLIENT: options.client,
        CertificateRole.CLI: options.cli,
    }
    roles = [role for role, wanted in chosen.items() if wanted]
    if len(roles) != 1:
        raise InvalidInputError("cannot make a certificate: give one of -server, -client and -cli")
    (role,) = roles
    domain = options.domain
    ca_file = Path(options.ca_file or f"{domain}-agent-ca.pem")
    ca_key_file = Path(options.key_file or f"{domain}-agent-ca-key.pem")
    request = CertificateRequest(
        role=role,
        region=options.region,
        domain=domain,
        days=options.days,
        dns_names=options.names,
        ip_addresses=options.addresses,
    )
    authority = Pair(_read(ca_file), _read(ca_key_file))
    pair = make_certificate(authority, request, datetime.now(UTC))
    stem = options.out or f"{options.region}-{role}-{domain}"
    cert_file, key_file = Path(f"{stem}.pem"), Path(f"{stem}-key.pem")
    _write(cert_file, pair.cert, key_file, pair.key)
    click.echo(f"==> {role.capitalize()} certificate saved to {cert_file}")
    click.echo(f"==> {role.capitalize()} key saved to {key_file}")
    if role is CertificateRole.SERVER and not (options.names or options.addresses):
        click.echo(
            "    It names this machine's loop-back only. Other machines reach a server whose"
        )
        click.echo("    certificate names its address: -additional-ipaddress, -additional-dnsname")
    _say_next(role, ca_file, cert_file, key_file)


def _say_next(role: str, ca_file: Path, cert_file: Path, key_file: Path) -> None:
    if role == "cli":
        click.echo(f"    Who connects to the servers by https:// needs both and {ca_file}:")
        for name, path in (
            ("CACERT", ca_file),
            ("CLIENT_CERT", cert_file),
            ("CLIENT_KEY", key_file),
        ):
            click.echo(f"    export ORCHGIT_{name}={path}")
        return
    click.echo(f"    Copy both and {ca_file} to the {role}; in its configuration:")
    click.echo("    tls {")
    for name, path in (("ca_file", ca_file), ("cert_file", cert_file), ("key_file", key_file)):
        click.echo(f'      {name.ljust(9)} = "{path}"')
    click.echo("    }")
    click.echo("    With http = true in it, HTTP is TLS as well (https://).")


@cert.command("info")
@formatted
@option("ca", dest="ca_file", default="", help="Also say whether this authority signed it.")
@click.argument("file")
def cert_info(file: str, ca_file: str, output: OutputFormat) -> None:
    """What is in a certificate: whom it names, until when it is valid."""
    _show(Path(file), output, Path(ca_file) if ca_file else None)


def _show(path: Path, output: OutputFormat, ca_path: Path | None = None) -> None:
    # As above: only these commands need it.
    from orchgit.cli.certificates import is_signed_by, read_certificate

    certificate = read_certificate(_read(path), str(path))
    found = _described(certificate)
    if ca_path is not None:
        found["SignedByCA"] = is_signed_by(certificate, read_certificate(_read(ca_path), "-ca"))
    if not output.printed(found):
        pairs(
            (name, ", ".join(map(str, value)) if isinstance(value, list) else value)
            for name, value in found.items()
        )


def _described(certificate: x509.Certificate) -> dict[str, object]:
    # As above: only these commands need it.
    from cryptography.hazmat.primitives import hashes

    from orchgit.cli.certificates import alternative_names, is_authority

    dns_names, addresses = alternative_names(certificate)
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    return {
        "Subject": certificate.subject.rfc4514_string(),
        "Issuer": certificate.issuer.rfc4514_string(),
        "IsCA": is_authority(certificate),
        "DNSNames": dns_names,
        "IPAddresses": addresses,
        "NotBefore": certificate.not_valid_before_utc.isoformat(),
        "NotAfter": certificate.not_valid_after_utc.isoformat(),
        "DaysLeft": left.days,
        "SerialNumber": f"{certificate.serial_number:x}",
        "SHA256": certificate.fingerprint(hashes.SHA256()).hex(),
    }


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInputError(
            f"cannot read {path}: {error.strerror}; name the file, or make an authority with "
            "`orchgit tls ca create`"
        ) from error


def _write(cert_file: Path, cert_pem: bytes, key_file: Path, key_pem: bytes) -> None:
    """Writes both files or none; existing files are never replaced."""
    for path in (cert_file, key_file):
        if path.exists():
            raise InvalidInputError(
                f"cannot write {path}: it is there already; work in another directory, or give a "
                "certificate another name with -out"
            )
    try:
        _write_new(key_file, key_pem, 0o600)
        _write_new(cert_file, cert_pem, 0o644)
    except OSError as error:
        raise InvalidInputError(f"cannot write {cert_file}: {error.strerror}") from error


def _write_new(path: Path, data: bytes, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
