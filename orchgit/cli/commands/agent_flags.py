"""The flags of `orchgit agent` that stand for keys of the configuration files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from orchgit.cli.options import option

Function = TypeVar("Function", bound=Callable[..., Any])

FLAGS: dict[str, str] = {
    "node": "name",
    "plugin-dir": "plugin_dir",
    "log-include-location": "log_include_location",
    "eventlog": "eventlog.enabled",
    "eventlog-level": "eventlog.level",
    "encrypt": "server.encrypt",
    "raft-protocol": "server.raft_protocol",
    "retry-max": "server.server_join.retry_max",
    "retry-interval": "server.server_join.retry_interval",
    "rejoin": "server.rejoin_after_leave",
    "state-dir": "client.state_dir",
    "alloc-dir": "client.alloc_dir",
    "meta": "client.meta",
    "network-interface": "client.network_interface",
    "preferred-address-family": "client.preferred_address_family",
    "network-speed": "client.network_speed",
    "host-volumes-dir": "client.host_volumes_dir",
    "host-volume-plugin-dir": "client.host_volume_plugin_dir",
    "acl-enabled": "acl.enabled",
    "acl-replication-token": "acl.replication_token",
    "consul-address": "consul.address",
    "consul-auth": "consul.auth",
    "consul-auto-advertise": "consul.auto_advertise",
    "consul-ca-file": "consul.ca_file",
    "consul-cert-file": "consul.cert_file",
    "consul-checks-use-advertise": "consul.checks_use_advertise",
    "consul-client-auto-join": "consul.client_auto_join",
    "consul-client-service-name": "consul.client_service_name",
    "consul-client-http-check-name": "consul.client_http_check_name",
    "consul-client-failures-before-critical": "consul.client_failures_before_critical",
    "consul-client-failures-before-warning": "consul.client_failures_before_warning",
    "consul-key-file": "consul.key_file",
    "consul-server-service-name": "consul.server_service_name",
    "consul-server-http-check-name": "consul.server_http_check_name",
    "consul-server-serf-check-name": "consul.server_serf_check_name",
    "consul-server-rpc-check-name": "consul.server_rpc_check_name",
    "consul-server-auto-join": "consul.server_auto_join",
    "consul-server-failures-before-critical": "consul.server_failures_before_critical",
    "consul-server-failures-before-warning": "consul.server_failures_before_warning",
    "consul-ssl": "consul.ssl",
    "consul-token": "consul.token",
    "consul-verify-ssl": "consul.verify_ssl",
    "vault-enabled": "vault.enabled",
    "vault-address": "vault.address",
    "vault-token": "vault.token",
    "vault-create-from-role": "vault.create_from_role",
    "vault-allow-unauthenticated": "vault.allow_unauthenticated",
    "vault-ca-file": "vault.ca_file",
    "vault-ca-path": "vault.ca_path",
    "vault-cert-file": "vault.cert_file",
    "vault-key-file": "vault.key_file",
    "vault-tls-skip-verify": "vault.tls_skip_verify",
    "vault-tls-server-name": "vault.tls_server_name",
}
"""Flag -> path of the key, in the table of `orchgit.configuration.documented`."""

SWITCHES = frozenset(
    (
        *("log-include-location", "eventlog", "rejoin", "acl-enabled"),
        *("consul-auto-advertise", "consul-checks-use-advertise", "consul-client-auto-join"),
        *("consul-server-auto-join", "consul-ssl", "consul-verify-ssl"),
        *("vault-enabled", "vault-allow-unauthenticated", "vault-tls-skip-verify"),
    )
)
_HELP = {
    "meta": "KEY=VALUE of the node, for constraints; may be repeated.",
    "node": "Name of the server and the node.",
    "network-interface": "Interface whose address tasks get.",
    "retry-interval": "Time between rounds of -retry-join.",
    "retry-max": "Number of rounds of -retry-join; 0: without limit.",
    "acl-enabled": "Requests need a token with the rights for them.",
}


def configuration_flags(command: Function) -> Function:
    """Adds the flags; the command gets those that are given as a map `flags`, by flag."""

    def with_flags(**arguments: Any) -> Any:
        flags = {flag: arguments.pop(_argument(flag)) for flag in FLAGS}
        given = {flag: value for flag, value in flags.items() if value not in (None, ())}
        return command(**arguments, flags=given)

    with_flags.__doc__ = command.__doc__
    with_flags.__name__ = command.__name__
    # Click keeps options that were declared before in an attribute of the function.
    with_flags.__dict__.update(command.__dict__)
    added: Any = with_flags
    for flag, path in reversed(FLAGS.items()):
        help_text = _HELP.get(flag, f"The same as {path} in a configuration file.")
        settings: dict[str, Any] = {"help": help_text, "default": None, "dest": _argument(flag)}
        if flag == "meta":
            settings |= {"multiple": True}
        elif flag in SWITCHES:
            settings |= {"is_flag": True, "default": None}
        added = option(flag, **settings)(added)
    result: Function = added
    return result


def _argument(flag: str) -> str:
    return f"flag_{flag.replace('-', '_')}"
