"""Settings of the gitops part of a server, from its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchgit.errors import InvalidInputError
from orchgit.gitops.git.certificates import check_certificates
from orchgit.gitops.git.credentials import GitCredential
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.git.urls import check_proxy
from orchgit.gitops.parsing.process import ParseLimits
from orchgit.gitops.parsing.regions import UNNAMED
from orchgit.gitops.rollouts.tracker import TrackerConfig
from orchgit.model.source import Source


@dataclass(frozen=True, slots=True)
class TransportConfig:
    """How this server reaches repositories whose credential says nothing else: by which proxy, but
    not for the hosts `no_proxy`; the authorities of certificates; the keys of ssh hosts."""

    proxy: str = ""
    no_proxy: tuple[str, ...] = ()
    ca_file: str = ""
    ca_pem: str = ""
    ssh_known_hosts_file: str = ""
    ssh_known_hosts: str = ""

    def __post_init__(self) -> None:
        check_proxy(self.proxy)
        check_certificates(self.ca_pem)
        for one, other in (
            ("ca_file", "ca_pem"),
            ("ssh_known_hosts_file", "ssh_known_hosts"),
        ):
            if getattr(self, one) and getattr(self, other):
                raise InvalidInputError(f"cannot use gitops.{one} and {other}: give one of them")


@dataclass(frozen=True, slots=True)
class GitopsConfig:
    """Settings of gitops. `credentials` and `webhook_secrets` are by the names that sources refer
    to; they are never replicated or shown. `local_paths` are the directories below which sources
    may have local repositories. `sources` are those that the configuration itself
    declares. `region` is the cluster's."""

    limits: GitLimits = field(default_factory=GitLimits)
    parsing: ParseLimits = field(default_factory=lambda: ParseLimits(warm=1))
    tracker: TrackerConfig = field(default_factory=TrackerConfig)
    credentials: Mapping[str, GitCredential] = field(default_factory=dict)
    transport: TransportConfig = field(default_factory=TransportConfig)
    webhook_secrets: Mapping[str, str] = field(default_factory=dict)
    local_paths: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    region: str = UNNAMED

    def __post_init__(self) -> None:
        for name, credential in self.credentials.items():
            credential.check(name)
        empty = sorted(name for name, secret in self.webhook_secrets.items() if not secret)
        if empty:
            raise InvalidInputError(f"cannot use an empty webhook secret: {', '.join(empty)}")
        relative = [path for path in self.local_paths if not path.startswith("/")]
        if relative:
            raise InvalidInputError(
                f"cannot use gitops.local_paths: {', '.join(relative)}: each is an absolute path"
            )
