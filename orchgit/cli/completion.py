"""Completes ids on the command line: which kind of thing an argument names, and where those are
listed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from orchgit.cli.client.tls_client import TlsClient
from orchgit.cli.options import client_of, tls_client_of
from orchgit.errors import OrchgitError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_MOST = 200


@dataclass(frozen=True, slots=True)
class CompletedKind:
    """Things of one kind: the list that has them, and which of its keys are the id and a help."""

    path: str
    key: str = "ID"
    about: str = ""
    params: dict[str, str] = field(default_factory=dict)


ALLOCATION = CompletedKind("/v1/allocations", about="Name")
CLAIM = CompletedKind("/v1/volumes/claims", about="JobID")
CSI_PLUGIN = CompletedKind("/v1/plugins", params={"type": "csi"})
DEPLOYMENT = CompletedKind("/v1/deployments", about="JobID")
EVALUATION = CompletedKind("/v1/evaluations", about="JobID")
JOB = CompletedKind("/v1/jobs", about="Status")
NAMESPACE = CompletedKind("/v1/namespaces", "Name", "Description")
NODE = CompletedKind("/v1/nodes", about="Name")
NODE_POOL = CompletedKind("/v1/node/pools", "Name", "Description")
ROLLOUT = CompletedKind("/v1/gitops/rollouts", about="Status")
SCALING_POLICY = CompletedKind("/v1/scaling/policies")
SERVICE = CompletedKind("/v1/services", "ServiceName")
SOURCE = CompletedKind("/v1/gitops/sources", "Name", "URL")
VARIABLE = CompletedKind("/v1/vars", "Path")
VOLUME = CompletedKind("/v1/volumes", about="Name", params={"type": "host"})


def id_argument(name: str, kind: CompletedKind, **settings: Any) -> Callable[[Any], Any]:
    """An argument that names a thing of this kind, by its id or the beginning of it."""

    def complete(
        context: click.Context, _: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return completed(context.params, kind, incomplete)

    return click.argument(name, shell_complete=complete, **settings)


def completed(given: dict[str, Any], kind: CompletedKind, incomplete: str) -> list[CompletionItem]:
    """Returns the things whose id begins with `incomplete`; none where no server answers.

    `given`: the options on the command line so far.
    """
    from click.shell_completion import CompletionItem

    tls = TlsClient(
        ca_cert=given.get("ca_cert") or "",
        ca_path=given.get("ca_path") or "",
        client_cert=given.get("client_cert") or "",
        client_key=given.get("client_key") or "",
        server_name=given.get("tls_server_name") or "",
        skip_verify=bool(given.get("tls_skip_verify")),
    )
    try:
        with client_of(
            given.get("address"),
            given.get("namespace"),
            given.get("region"),
            given.get("token"),
            tls_client_of(tls),
        ) as client:
            found = client.get(kind.path, prefix=incomplete, per_page=_MOST, **kind.params) or []
            if kind is SERVICE:
                found = [each for part in found for each in part["Services"]]
            items = [(str(each[kind.key]), each.get(kind.about)) for each in found]
    except (OrchgitError, LookupError, TypeError, AttributeError):
        return []
    shown = [(name, about) for name, about in items if name.startswith(incomplete)]
    return [CompletionItem(name, help=str(about or "")) for name, about in shown[:_MOST]]
