"""A remote repository with all that reaching it takes, and the environment that tells git so.

git gets no proxy, certificate, key or known host from the environment or the home directory of the
user that runs the server: all come from the configuration and the source.
"""

from __future__ import annotations

import base64
import shlex
from dataclasses import dataclass

from orchgit.gitops.git.credentials import GitCredential
from orchgit.gitops.git.text_files import TextFiles
from orchgit.gitops.git.urls import RepositoryUrl


@dataclass(frozen=True, slots=True)
class Remote:
    """A repository, and how to log in and reach it. Equal ones are asked once for all sources.

    `ca_file` or `ca_pem` are the authorities of its certificate, or both '' for those of the
    machine. `known_hosts_file` or `known_hosts` are the keys of ssh hosts, or both '' for those of
    the machine (`/etc/ssh/ssh_known_hosts`). `proxy` is '' for none.
    """

    url: RepositoryUrl
    credential: GitCredential | None = None
    ca_file: str = ""
    ca_pem: str = ""
    known_hosts_file: str = ""
    known_hosts: str = ""
    proxy: str = ""

    def stored_ca_file(self, files: TextFiles) -> str:
        """Returns the file of the authorities, written if they were given as text; '' without."""
        return str(files.store("ca", self.ca_pem)) if self.ca_pem else self.ca_file

    def environment(self, files: TextFiles, silence_s: float) -> dict[str, str]:
        """Returns the environment variables by which git reaches the repository and logs in. They
        allow the URL's own protocol and no other. Raises SourceError for a credential of another
        origin. No secret gets into an argument list or a file."""
        if self.credential is not None:
            self.credential.check_origin(self.url)
        allowed = {"GIT_ALLOW_PROTOCOL": self.url.protocol}
        if self.url.protocol == "ssh":
            command = shlex.join(["ssh", *self._ssh_options(files)])
            return {**allowed, "GIT_SSH_COMMAND": command, "GIT_SSH_VARIANT": "ssh"}
        if self.url.protocol not in ("http", "https"):
            return allowed
        settings = self._http_settings(files, silence_s)
        config = {"GIT_CONFIG_COUNT": str(len(settings))}
        for number, (name, value) in enumerate(settings.items()):
            config[f"GIT_CONFIG_KEY_{number}"] = f"http.{self.url.origin}/.{name}"
            config[f"GIT_CONFIG_VALUE_{number}"] = value
        return {**allowed, **config}

    def _http_settings(self, files: TextFiles, silence_s: float) -> dict[str, str]:
        settings = {
            "proxy": self.proxy,
            "lowSpeedLimit": "1",
            "lowSpeedTime": str(max(1, round(silence_s))),
        }
        ca_file = self.stored_ca_file(files)
        if ca_file:
            settings["sslCAInfo"] = ca_file
            settings["sslCAPath"] = str(files.empty_directory())
        credential = self.credential
        if credential is not None and credential.client_cert_file:
            settings["sslCert"] = credential.client_cert_file
            settings["sslKey"] = credential.client_key_file
        if credential is not None and (credential.username or credential.password):
            pair = f"{credential.username}:{credential.password}".encode()
            settings["extraHeader"] = f"Authorization: Basic {base64.b64encode(pair).decode()}"
        return settings

    def _ssh_options(self, files: TextFiles) -> list[str]:
        """Returns options for ssh, which git hands to a shell: every part comes from the server's
        config and is quoted. ssh uses no key, agent or settings of the server's user."""
        known = str(files.store("known_hosts", self.known_hosts)) if self.known_hosts else ""
        known = known or self.known_hosts_file
        wanted = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": known or "/dev/null",
            "GlobalKnownHostsFile": "/dev/null" if known else "/etc/ssh/ssh_known_hosts",
            "UpdateHostKeys": "no",
            "ConnectTimeout": "10",
            "ServerAliveInterval": "10",
            "ServerAliveCountMax": "3",
            "IdentityAgent": "none",
            "IdentityFile": "none",
            "GSSAPIAuthentication": "no",
            "HostbasedAuthentication": "no",
            "ForwardAgent": "no",
            "ClearAllForwardings": "yes",
        }
        options = ["-F", "none"]
        for name, value in wanted.items():
            options += ["-o", f"{name}={value}"]
        if self.credential is not None and self.credential.ssh_key_file:
            options += ["-i", self.credential.ssh_key_file]
        return options
