"""Explains why no server answered, and what to do next."""

from __future__ import annotations

import ssl

from orchgit.cli.client.exchange import (
    ExchangeError,
    NoAnswerError,
    NotConnectedError,
    NotHttpError,
    Url,
)
from orchgit.cli.client.tls_client import TlsClient
from orchgit.wire.certificate_errors import OVER, UNKNOWN_AUTHORITY, WRONG_HOST


def why_unreachable(
    error: ExchangeError, address: str, addresses: str, tls: TlsClient, writes: bool = False
) -> str:
    """Returns the message for people.

    `address` is the server that was asked last, of all `addresses` given; `writes` says whether the
    request changes something.
    """
    failure = _ssl_error(error)
    if isinstance(failure, ssl.SSLCertVerificationError):
        return f"cannot connect to {address}: {_why_not_trusted(failure, address, tls)}"
    if failure is not None:
        return f"cannot connect to {address}: {_why_no_tls(failure, tls)}"
    if isinstance(error, NoAnswerError):
        known = (
            "whether it was done is not known: look before trying again"
            if writes
            else "ask another server, with -address or ORCHGIT_ADDR"
        )
        return f"cannot get an answer from the server at {address}: it took too long; {known}"
    if address.startswith("https://") and not isinstance(error, NotConnectedError):
        return f"cannot talk to the server at {address}: {_said(error)}; {_what_certificate(tls)}"
    if isinstance(error, NotHttpError):
        return (
            f"cannot talk to the server at {address}: {_said(error)}; give the address of its HTTP "
            "API (port 4646, if it was not changed) by -address or ORCHGIT_ADDR"
        )
    return (
        f"cannot reach the server at {addresses}: {_said(error)}; is one running (`orchgit dev`)? "
        "Set -address or ORCHGIT_ADDR if it is elsewhere"
    )


def _said(error: Exception) -> str:
    return str(error).rstrip(".")


def _ssl_error(error: BaseException | None) -> ssl.SSLError | None:
    """Finds the TLS error behind the error."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return error
        error = error.__cause__ or error.__context__
    return None


def _why_not_trusted(failure: ssl.SSLCertVerificationError, address: str, tls: TlsClient) -> str:
    if failure.verify_code in UNKNOWN_AUTHORITY:
        given = tls.ca_cert or tls.ca_path
        by = f"the authority in {given}" if given else "an authority that this machine trusts"
        other = "another -ca-cert" if given else "-ca-cert"
        return (
            f"its certificate is not signed by {by}; give {other} or NOMAD_CACERT: the file that "
            "the server names as ca_file"
        )
    if failure.verify_code in WRONG_HOST:
        name = tls.server_name or Url.parse(address).host
        return (
            f"its certificate is not for {name}; use an address that is in it, or say what it "
            "names by -tls-server-name or NOMAD_TLS_SERVER_NAME (such as server.global.orchgit)"
        )
    if failure.verify_code == OVER:
        return (
            "its certificate is over, or this machine's clock is wrong; `orchgit tls cert create` "
            "makes a new one"
        )
    return f"its certificate cannot be trusted: {failure.verify_message}"


def _what_certificate(tls: TlsClient) -> str:
    """Returns what certificate to give: a server that refuses one may only break off."""
    if not tls.client_cert:
        return (
            "if it answers only those who show a certificate, give -client-cert and -client-key, "
            "or NOMAD_CLIENT_CERT and NOMAD_CLIENT_KEY"
        )
    return (
        f"if it does not take the certificate {tls.client_cert}, give one that is signed by the "
        "server's authority and not over (`orchgit tls cert create -cli`)"
    )


def _why_no_tls(failure: ssl.SSLError, tls: TlsClient) -> str:
    reason = failure.reason or ""
    if "ALERT" in reason:
        return f"it broke off ({reason}); {_what_certificate(tls)}"
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return "it speaks plain HTTP there; write http:// in the address, or ask another port"
    return f"TLS failed: {failure}"
