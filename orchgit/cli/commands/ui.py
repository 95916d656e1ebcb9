"""`orchgit ui [OBJECT]`: the address of the page that shows something."""

from __future__ import annotations

import webbrowser
from urllib.parse import urlencode

import click

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.command import cli_command
from orchgit.cli.options import connected, formatted, no_effect_option, option
from orchgit.cli.printing.output_format import OutputFormat


@cli_command("ui")
@click.argument("object", required=False)
@option("open", is_flag=True, help="Open the page in a browser.")
@no_effect_option("show-url", "the address is printed anyway", is_flag=True)
@option(
    "authenticate",
    is_flag=True,
    help="Print an address that logs a browser in with your token, once, for ten minutes.",
)
@formatted
@connected
def ui(
    client: ApiClient, object: str | None, open: bool, authenticate: bool, output: OutputFormat
) -> None:
    """Print the address of the pages, or of the page of OBJECT.

    OBJECT is a source, a job, or a rollout (its id, its commit's id, or the beginning of it).
    """
    if client.socket_path:
        raise ApiError(
            f"cannot show pages by the socket {client.socket_path}: give an http:// or https:// "
            "address of a server"
        )
    path = _path_of(client, object) if object else "/ui/sources"
    if authenticate:
        path = _login_path(client, path)
    url = client.address.rstrip("/") + path
    if not output.printed({"URL": url}):
        click.echo(url)
    if open and not webbrowser.open(url):
        raise ApiError(f"cannot open a browser here: open {url}")


def _login_path(client: ApiClient, path: str) -> str:
    """Returns the path that logs a browser in and leads to `path`."""
    try:
        made = client.put("/v1/acl/token/onetime")
    except ApiError as error:
        raise ApiError(f"cannot make a one-time token to log in with: {error}") from error
    return "/ui/login?" + urlencode({"ott": made["OneTimeToken"]["OneTimeSecretID"], "back": path})


def _path_of(client: ApiClient, name: str) -> str:
    """Returns the path of the page of what has this name. Raises ApiError if nothing has."""
    namespace = quoted(client.namespace or "default")
    text = quoted(name)
    for path, page in (
        (f"/v1/gitops/source/{text}", f"/ui/source/{text}"),
        (f"/v1/job/{text}", f"/ui/job/{namespace}/{text}"),
        (f"/v1/gitops/rollout/{text}", ""),
    ):
        try:
            found = client.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
        else:
            return page or f"/ui/rollout/{found['ID']}"
    raise ApiError(
        f"cannot show {name!r}: there is no such source, job or rollout; `orchgit source list`, "
        "`orchgit job status` and `orchgit rollout list` show what there is"
    )
