"""Options that many commands share. Long options are accepted with one dash and with two."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from orchgit.cli.http_client import ApiClient

Function = TypeVar("Function", bound=Callable[..., Any])


def option(
    name: str, *aliases: str, dest: str | None = None, **settings: Any
) -> Callable[[Function], Function]:
    """`-name` and `--name` (and the same for aliases), stored as `dest`, or else as `name`."""
    spellings = [f"{dash}{each}" for each in (name, *aliases) for dash in ("-", "--")]
    return click.option(dest or name.replace("-", "_"), *spellings, **settings)


def _environment(*names: str) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def connected(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the connection options and passes an `ApiClient` as the argument `client`."""

    @option(
        "address",
        help="Address of a server, or several separated by commas [ORCHGIT_ADDR, NOMAD_ADDR].",
    )
    @option("namespace", help="Namespace of the request [ORCHGIT_NAMESPACE, NOMAD_NAMESPACE].")
    @option("region", help="Region to ask [ORCHGIT_REGION, NOMAD_REGION].")
    @option("token", help="Access token [ORCHGIT_TOKEN, NOMAD_TOKEN].")
    @wraps(command)
    def with_client(
        address: str | None,
        namespace: str | None,
        region: str | None,
        token: str | None,
        **arguments: Any,
    ) -> Any:
        client = ApiClient(
            address=address or _environment("ORCHGIT_ADDR", "NOMAD_ADDR"),
            namespace=namespace or _environment("ORCHGIT_NAMESPACE", "NOMAD_NAMESPACE"),
            region=region or _environment("ORCHGIT_REGION", "NOMAD_REGION"),
            token=token or _environment("ORCHGIT_TOKEN", "NOMAD_TOKEN"),
        )
        with client:
            return command(client=client, **arguments)

    return with_client


def formatted(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `-json` and `-t TEMPLATE` (Jinja2 over the answer, as `data`)."""

    as_json = option("json", dest="as_json", is_flag=True, help="Print the answer as JSON.")
    template = option(
        "t", dest="template", help="Format the answer with a Jinja2 template; it is `data`."
    )
    return as_json(template(command))


verbose_option = option("verbose", is_flag=True, help="Show whole ids and more columns.")
detach_option = option("detach", is_flag=True, help="Return at once instead of watching.")
yes_option = option("yes", is_flag=True, help="Do not ask for confirmation.")
