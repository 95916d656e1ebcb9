"""What Nomad says of a configuration that could be read: warnings, and the first thing wrong.

`nomad config validate` checks little; these are its sentences in its order, as recorded. What
orchgit itself cannot use is found when the settings are made (`settings`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orchgit.configuration.keys import BlockValues
from orchgit.configuration.sizes import SizeError, bytes_of
from orchgit.durations import DurationError, parse_ns

NO_MODE = "Must specify either server, client or dev mode for the agent."
NO_MTLS = "WARNING: mTLS is not configured - Nomad is not secure without mTLS!"
_POOL_NAME = re.compile(r"[a-zA-Z0-9\-_]{1,128}")
_META_NAME = re.compile(r"[^.]+(\.[^.]+)*")
_KEYRING_PROVIDERS = frozenset(("aead", "awskms", "azurekeyvault", "gcpckms", "transit"))
_MAX_PORT = 65536


@dataclass(slots=True)
class Verdict:
    """`lines` are Nomad's sentences in order; the last one is the mistake where `valid` is off."""

    valid: bool
    lines: list[str] = field(default_factory=list)


class _WrongError(Exception):
    """The sentence that ends the checks."""


def check(values: BlockValues) -> Verdict:
    """Returns Nomad's verdict on the joined files."""
    verdict = Verdict(True)
    try:
        for warning in _Checks(values).run():
            verdict.lines.append(warning)
    except _WrongError as wrong:
        verdict.valid = False
        verdict.lines.append(str(wrong))
    return verdict


class _Checks:
    def __init__(self, values: BlockValues) -> None:
        self._values = values
        self._server = values.blocks.get("server", BlockValues())
        self._client = values.blocks.get("client", BlockValues())

    def run(self) -> Iterator[str]:
        """Yields warnings. Raises _WrongError with the first mistake."""
        if not (self._server.values.get("enabled") or self._client.values.get("enabled")):
            raise _WrongError(NO_MODE)
        steps: tuple[Callable[[], Iterable[str] | None], ...] = (
            self._check_names,
            self._check_telemetry,
            self._tls_warnings,
            self._check_directories,
            self._check_client,
            self._check_ports,
            self._check_artifact,
            self._check_scheduler,
            self._check_data_dir,
            self._bootstrap_warnings,
            self._check_keyrings,
        )
        for step in steps:
            yield from step() or ()

    def _check_names(self) -> None:
        if "\0" in str(self._values.values.get("region", "")):
            raise _WrongError("Region contains invalid characters")
        if {"\0", "*"} & set(str(self._values.values.get("datacenter", ""))):
            raise _WrongError("Datacenter contains invalid characters (null or '*')")

    def _check_telemetry(self) -> None:
        telemetry = self._values.blocks.get("telemetry", BlockValues()).values
        collection_ns = parse_ns(str(telemetry.get("in_memory_collection_interval", "10s")))
        retention_ns = parse_ns(str(telemetry.get("in_memory_retention_period", "1m")))
        wrong = ""
        if collection_ns <= 0:
            wrong = "telemetry in-memory collection interval must be greater than zero"
        elif retention_ns <= 0:
            wrong = "telemetry in-memory retention period must be greater than zero"
        elif collection_ns > retention_ns:
            wrong = (
                "telemetry in-memory collection interval cannot be greater than retention period"
            )
        if wrong:
            raise _WrongError(f"telemetry block invalid: {wrong}")

    def _tls_warnings(self) -> Iterator[str]:
        tls = self._values.blocks.get("tls", BlockValues()).values
        for name in ("ca_file", "cert_file", "key_file"):
            path = str(tls.get(name, ""))
            if not path:
                continue
            try:
                Path(path).open("rb").close()
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                yield f"WARNING: Error when parsing TLS configuration: open {path}: {why}"
                break
        has_files = all(tls.get(name) for name in ("ca_file", "cert_file", "key_file"))
        # RPC is mutual TLS as soon as the files are there (docs/operations.md), unlike Nomad's.
        if not (tls.get("http") and tls.get("rpc", has_files)):
            yield NO_MTLS

    def _check_directories(self) -> None:
        client = self._client.values
        directories = {
            "data-dir": self._values.values.get("data_dir"),
            "plugin-dir": self._values.values.get("plugin_dir"),
            "alloc-dir": client.get("alloc_dir"),
            "alloc-mounts-dir": client.get("alloc_mounts_dir"),
            "host-volumes-dir": client.get("host_volumes_dir"),
            "host-volume-plugin-dir": client.get("host_volume_plugin_dir"),
            "common-plugin-dir": client.get("common_plugin_dir"),
            "state-dir": client.get("state_dir"),
        }
        for name, directory in directories.items():
            if directory and not str(directory).startswith("/"):
                raise _WrongError(f"{name} must be given as an absolute path: got {directory}")

    def _check_client(self) -> None:
        client = self._client.values
        meta: Any = client.get("meta", {})
        for name in meta if client.get("enabled") else ():
            if not _META_NAME.fullmatch(name):
                raise _WrongError(f"Invalid Client.Meta key: {name}")
        pool = str(client.get("node_pool") or "default")
        if not _POOL_NAME.fullmatch(pool):
            raise _WrongError(
                f'Invalid node pool: invalid name "{pool}", must match regex '
                "^[a-zA-Z0-9-_]{1,128}$"
            )
        if pool == "all":
            raise _WrongError(
                'Invalid node pool: node is not allowed to register in node pool "all"'
            )
        family = client.get("preferred_address_family") or "ipv4"
        if family not in ("ipv4", "ipv6"):
            raise _WrongError(
                f"Invalid preferred-address-family value: {family} (valid values: ipv4, ipv6)"
            )
        for volume in self._client.labelled.get("host_volume", {}).values():
            if not volume.values.get("path"):
                raise _WrongError("Missing path in host_volume config")

    def _check_ports(self) -> None:
        client = self._client.values
        low = int(str(client.get("min_dynamic_port") or 20000))
        high = int(str(client.get("max_dynamic_port") or 32000))
        if not 0 <= low < _MAX_PORT:
            raise _WrongError(f"Invalid dynamic port range: min_dynamic_port={low}")
        if not 0 <= high < _MAX_PORT:
            raise _WrongError(f"Invalid dynamic port range: max_dynamic_port={high}")
        if low > high:
            raise _WrongError(
                f"Invalid dynamic port range: min_dynamic_port={low} and max_dynamic_port={high}"
            )
        reserved = self._client.blocks.get("reserved", BlockValues()).values
        _check_port_ranges("reserved.reserved_ports", str(reserved.get("reserved_ports", "")))
        for name, network in self._client.labelled.get("host_network", {}).items():
            ports = str(network.values.get("reserved_ports", ""))
            _check_port_ranges(f'host_network["{name}"].reserved_ports', ports)

    def _check_artifact(self) -> None:
        artifact = self._client.blocks.get("artifact", BlockValues()).values
        checks: dict[str, Callable[[str], str]] = {
            "http_read_timeout": _timeout_problem,
            "http_max_size": _size_problem,
            "gcs_timeout": _timeout_problem,
            "git_timeout": _timeout_problem,
            "hg_timeout": _timeout_problem,
            "s3_timeout": _timeout_problem,
            "decompression_size_limit": _size_problem,
        }
        for name, problem_of in checks.items():
            if name in artifact and (problem := problem_of(str(artifact[name]))):
                raise _WrongError(f"client.artifact block invalid: {name} {problem}")
        if int(str(artifact.get("decompression_file_count_limit", 0))) < 0:
            raise _WrongError(
                "client.artifact block invalid: decompression_file_count_limit must not be negative"
            )

    def _check_scheduler(self) -> None:
        scheduler = self._server.blocks.get("default_scheduler_config", BlockValues()).values
        algorithm = scheduler.get("scheduler_algorithm") or "binpack"
        if algorithm not in ("binpack", "spread"):
            raise _WrongError(f"invalid scheduler algorithm: {algorithm}")

    def _check_data_dir(self) -> None:
        if self._values.values.get("data_dir"):
            return
        if self._server.values.get("enabled"):
            raise _WrongError('Must specify "data_dir" config option or "data-dir" CLI flag')
        client = self._client.values
        named = (client.get("alloc_dir"), client.get("alloc_mounts_dir"), client.get("state_dir"))
        if not all((*named, self._values.values.get("plugin_dir"))):
            raise _WrongError(
                "Must specify the state, alloc-dir, alloc-mounts-dir and plugin-dir if data-dir is "
                "omitted."
            )

    def _bootstrap_warnings(self) -> Iterator[str]:
        server = self._server.values
        if not server.get("enabled"):
            return
        expected = int(str(server.get("bootstrap_expect", 0)))
        if expected == 1:
            yield "WARNING: Bootstrap mode enabled! Potentially unsafe operation."
        elif expected % 2 == 0:
            yield "WARNING: Number of bootstrap servers should ideally be set to an odd number."
        issuer = str(server.get("oidc_issuer", ""))
        if issuer.startswith(":"):
            raise _WrongError(
                f'Error using server.oidc_issuer = "{issuer}" as a base URL: '
                f'parse "{issuer}": missing protocol scheme'
            )
        if issuer and urlsplit(issuer).scheme != "https":
            yield (
                f'server.oidc_issuer = "{issuer}" is not using https. '
                "Many OIDC implementations require https."
            )

    def _check_keyrings(self) -> None:
        keyrings = self._values.labelled.get("keyring", {})
        for provider, keyring in keyrings.items():
            if provider not in _KEYRING_PROVIDERS:
                name = keyring.values.get("name", "")
                raise _WrongError(
                    f'keyring "{name}" invalid: unknown keyring provider: "{provider}"'
                )


def _check_port_ranges(name: str, text: str) -> None:
    for part in text.split(",") if text else ():
        numbers = [one.strip() for one in part.split("-")]
        for number in numbers:
            problem = ""
            if not number.isdecimal():
                problem = f'strconv.ParseUint: parsing "{number}": invalid syntax'
            elif int(number) >= _MAX_PORT:
                problem = f"port must be < {_MAX_PORT} but found {number}"
            if problem:
                raise _WrongError(f'{name} "{text}" invalid: {problem}')
        if len(numbers) > 2:
            raise _WrongError(
                f'{name} "{text}" invalid: can only parse single port numbers or '
                f"port ranges (ex. 80,100-120,150)"
            )
        if len(numbers) == 2 and int(numbers[0]) > int(numbers[1]):
            raise _WrongError(
                f'{name} "{text}" invalid: invalid range: starting value '
                f"({numbers[1]}) less than ending ({numbers[0]}) value"
            )


def _timeout_problem(text: str) -> str:
    try:
        return "must be > 0" if parse_ns(text) < 0 else ""
    except DurationError as error:
        return f"not a valid duration: time: {error}"


def _size_problem(text: str) -> str:
    try:
        bytes_of(text)
    except SizeError as error:
        return f"not a valid size: {error}"
    return ""
