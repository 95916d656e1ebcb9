"""Logging in at a remote repository: what a credential is, and which origin it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from orchgit.errors import InvalidInputError, SourceError
from orchgit.gitops.git.certificates import check_certificates
from orchgit.gitops.git.urls import RepositoryUrl, check_proxy, origin_of


@dataclass(frozen=True, slots=True)
class GitCredential:
    """How to log in at one origin, `https://host[:port]` or `ssh://host[:port]`, and reach it.

    It is never sent to another origin, so a source whose URL changes does not carry it along.
    `ca_file` or `ca_pem` are the authorities that may sign the origin's certificate,
    `client_cert_file` and `client_key_file` what this server shows, `ssh_known_hosts_file` or
    `ssh_known_hosts` the keys of ssh hosts. `proxy`: '' is that of the configuration, 'none' none.
    `sources` and `urls` are globs of the names and URLs of the sources that may use it.
    """

    origin: str
    username: str = ""
    password: str = ""
    ssh_key_file: str = ""
    ssh_known_hosts_file: str = ""
    sources: Sequence[str] = field(default=(), compare=False)
    urls: Sequence[str] = field(default=(), compare=False)
    ssh_known_hosts: str = ""
    ca_file: str = ""
    ca_pem: str = ""
    client_cert_file: str = ""
    client_key_file: str = ""
    proxy: str = ""

    def check(self, name: str) -> None:
        """Raises InvalidInputError for settings that cannot be used; `name` is the credential's."""
        where = f"gitops.credential {name!r}"
        try:
            origin_of(self.origin)
            check_certificates(self.ca_pem)
            if self.proxy != "none":
                check_proxy(self.proxy)
        except InvalidInputError as error:
            raise InvalidInputError(f"cannot use {where}: {error}") from error
        if self.ca_file and self.ca_pem:
            raise InvalidInputError(f"cannot use {where}: give either ca_file or ca_pem")
        if self.ssh_known_hosts_file and self.ssh_known_hosts:
            raise InvalidInputError(
                f"cannot use {where}: give either ssh_known_hosts_file or ssh_known_hosts"
            )
        if bool(self.client_cert_file) != bool(self.client_key_file):
            raise InvalidInputError(
                f"cannot use {where}: client_cert_file and client_key_file belong together"
            )

    def check_origin(self, url: RepositoryUrl) -> None:
        """Raises SourceError unless the URL is of the credential's origin."""
        if not url.origin:
            raise SourceError(
                f"cannot send this source's credential over {url.protocol}://: that has no login; "
                "use https:// or ssh://, or take the credential out of the source"
            )
        if origin_of(self.origin) != url.origin:
            raise SourceError(
                f"cannot send this source's credential to {url.origin}: it belongs to "
                f"{self.origin}; name another credential for the new URL"
            )
