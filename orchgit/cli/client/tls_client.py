"""The certificates with which the command line and servers recognize each other."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from orchgit.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class TlsClient:
    """The files given. Without any: the authorities that this machine trusts, and no own
    certificate.
    """

    ca_cert: str = ""
    ca_path: str = ""
    client_cert: str = ""
    client_key: str = ""
    server_name: str = ""
    """The name that the server's certificate needs, instead of the host of the address."""
    skip_verify: bool = False

    def context(self, secure: bool) -> ssl.SSLContext:
        """Returns the TLS context.

        With `secure` (some address is https://) the files are read; raises InvalidInputError for
        files that cannot be used.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if not secure:
            return context
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            self._load_authorities(context)
        self._load_own(context)
        return context

    def git_settings(self) -> list[str]:
        """Returns the environment variables with which git talks to the same server."""
        named = {
            "GIT_SSL_CAINFO": self.ca_cert,
            "GIT_SSL_CAPATH": "" if self.ca_cert else self.ca_path,
            "GIT_SSL_CERT": self.client_cert,
            "GIT_SSL_KEY": self.client_key,
        }
        return [f"{name}={os.path.abspath(path)}" for name, path in named.items() if path]

    def _load_authorities(self, context: ssl.SSLContext) -> None:
        if not (self.ca_cert or self.ca_path):
            context.load_default_certs()
            return
        if self.ca_cert:
            _read("-ca-cert", self.ca_cert)
        elif not Path(self.ca_path).is_dir():
            raise InvalidInputError(f"cannot use -ca-path {self.ca_path}: it is not a directory")
        try:
            if self.ca_cert:
                context.load_verify_locations(cafile=self.ca_cert)
            for file in () if self.ca_cert else sorted(Path(self.ca_path).iterdir()):
                if file.is_file():
                    context.load_verify_locations(cafile=file)
        except ssl.SSLError as error:
            place = self.ca_cert or self.ca_path
            raise InvalidInputError(
                f"cannot use {place}: it holds no certificate of an authority in PEM form"
            ) from error

    def _load_own(self, context: ssl.SSLContext) -> None:
        if bool(self.client_cert) != bool(self.client_key):
            given, missing = ("-client-cert", "-client-key")[:: 1 if self.client_cert else -1]
            raise InvalidInputError(f"cannot use {given} without {missing}: give both")
        if not self.client_cert:
            return
        _read("-client-cert", self.client_cert)
        _read("-client-key", self.client_key)
        try:
            # The password keeps OpenSSL from asking at the terminal for that of an encrypted key.
            context.load_cert_chain(self.client_cert, self.client_key, password="")
        except ssl.SSLError as error:
            raise InvalidInputError(
                f"cannot use {self.client_cert} and {self.client_key}: they are not a certificate "
                "and its unencrypted key, in PEM form"
            ) from error


def _read(option: str, path: str) -> None:
    try:
        Path(path).read_bytes()
    except OSError as error:
        raise InvalidInputError(f"cannot read {option} {path}: {error.strerror}") from error
