"""Certificates of authorities in PEM, and why a server's certificate is not trusted."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

from orchgit.errors import InvalidInputError

MAX_PEM_BYTES = 256 * 1024
_PROBE_S = 5.0


def check_certificates(pem: str) -> None:
    """Raises InvalidInputError unless the text is empty or certificates in PEM, of at most 256 KiB.
    A private key is refused."""
    if not pem:
        return
    if len(pem) > MAX_PEM_BYTES:
        raise InvalidInputError(
            f"cannot use these certificates: {len(pem)} characters, above {MAX_PEM_BYTES}"
        )
    if "PRIVATE KEY" in pem:
        raise InvalidInputError(
            "cannot use these certificates: a private key is among them; give only the "
            "certificates of the authorities"
        )
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidInputError(
            "cannot use these certificates: they are no PEM (-----BEGIN CERTIFICATE-----)"
        ) from error


async def certificate_problem(host: str, port: int, ca_file: str) -> str:
    """Returns why TLS refuses the certificate of a server, or '' if that cannot be told. Nothing is
    sent but the handshake."""
    try:
        context = await asyncio.to_thread(ssl.create_default_context, cafile=ca_file or None)
        async with asyncio.timeout(_PROBE_S):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except ssl.SSLCertVerificationError as error:
        return str(error.verify_message)
    except (OSError, TimeoutError, ssl.SSLError):
        return ""
    writer.close()
    with contextlib.suppress(OSError, ssl.SSLError):
        await writer.wait_closed()
    return ""
