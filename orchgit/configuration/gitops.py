"""Turns the gitops section of a configuration file into limits and ways to reach repositories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from orchgit.configuration.schema import GitopsLimitsSection, GitopsSection, SourceSection
from orchgit.configuration.sizes import parse_bytes
from orchgit.durations import parse_setting_ns
from orchgit.errors import InvalidInputError
from orchgit.gitops.config import TransportConfig
from orchgit.gitops.git.certificates import MAX_PEM_BYTES, check_certificates
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.parsing.process import ParseLimits

_OF_PARSING = frozenset(("parse_timeout", "parse_memory_bytes", "parse_processes", "max_steps"))


def gitops_limits(section: GitopsLimitsSection) -> tuple[GitLimits, ParseLimits]:
    """Returns the limits with those of the file in the place of the defaults. Raises
    InvalidInputError for one that is not above zero."""
    of_git: dict[str, Any] = {}
    of_parsing: dict[str, Any] = {}
    for name, given in msgspec.structs.asdict(section).items():
        if given in ("", 0):
            continue
        where, field, value = f"gitops.limits.{name}", name, given
        if name.endswith("_timeout"):
            field, value = f"{name}_s", parse_setting_ns(where, given) / 1e9
        elif isinstance(given, str):
            value = parse_bytes(where, given)
        if value <= 0:
            raise InvalidInputError(f"cannot use {where}: it must be more than zero")
        (of_parsing if name in _OF_PARSING else of_git)[field] = value
    return replace(GitLimits(), **of_git), replace(ParseLimits(warm=1), **of_parsing)


def transport_config(section: GitopsSection) -> TransportConfig:
    """Returns how repositories are reached whose credential says nothing else."""
    return TransportConfig(
        proxy=section.proxy,
        no_proxy=tuple(section.no_proxy),
        ca_file=section.ca_file,
        ca_pem=section.ca_pem,
        ssh_known_hosts_file=section.ssh_known_hosts_file,
        ssh_known_hosts=section.ssh_known_hosts,
    )


def source_certificates(name: str, section: SourceSection) -> str:
    """Returns the certificates of authorities of a `source` block. Raises InvalidInputError for a
    file that cannot be read."""
    if not section.ca_file:
        check_certificates(section.ca_pem)
        return section.ca_pem
    where = f"gitops.source {name!r}"
    if section.ca_pem:
        raise InvalidInputError(f"cannot use {where}: give either ca_file or ca_pem")
    try:
        with Path(section.ca_file).open(encoding="ascii") as file:
            pem = file.read(MAX_PEM_BYTES + 1)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise InvalidInputError(
            f"cannot use {where}: cannot read ca_file {section.ca_file}: {why}"
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"cannot use {where}: ca_file is no file of PEM") from error
    check_certificates(pem)
    return pem
