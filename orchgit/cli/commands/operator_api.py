"""`orchgit operator api`: a request by hand."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from urllib.parse import urlsplit

import click

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.command import cli_command
from orchgit.cli.options import connected, option_field, options_of


def header(text: str) -> tuple[str, str]:
    """The type of an option that takes `Name: value`."""
    name, colon, value = text.partition(":")
    if not (name.strip() and colon):
        raise click.BadParameter(f"cannot read the header {text!r}: write Name: value")
    return name.strip(), value.strip()


@dataclass(frozen=True, slots=True)
class RequestOptions:
    method: str | None = option_field(
        "X", help="Method of the request; GET, or PUT where there is a body on standard input."
    )
    headers: tuple[tuple[str, str], ...] = option_field(
        "H", type=header, multiple=True, help="A header, Name: value; may be repeated."
    )
    filter: str | None = option_field("filter", help="The query parameter `filter`.")
    dryrun: bool = option_field(
        "dryrun", is_flag=True, help="Print a curl command for the request, and send nothing."
    )
    verbose: bool = option_field("verbose", is_flag=True, help="Show the request as it is sent.")


@cli_command("api")
@click.argument("path")
@options_of(RequestOptions)
@connected
def api(client: ApiClient, path: str, options: RequestOptions) -> None:
    """Send a request and print the answer. The body is what standard input has."""
    if "://" in path:
        parts = urlsplit(path)
        path = parts.path + (f"?{parts.query}" if parts.query else "")
    if not path.startswith("/"):
        path = f"/{path}" if path.startswith("v1/") else f"/v1/{path}"
    method = options.method or "GET"
    body = None
    if method not in ("GET", "HEAD", "DELETE") or not sys.stdin.isatty():
        body = b"" if method == "GET" and options.method else sys.stdin.buffer.read()
    if options.method is None and body:
        method = "PUT"
    if options.dryrun:
        words = ["curl", "-X", method, client.address + path]
        if client.socket_path:
            words[3:] = ["--unix-socket", client.socket_path, f"http://localhost{path}"]
        for name, value in options.headers:
            words += ["-H", f"{name}: {value}"]
        if body:
            words += ["--data", body.decode(errors="backslashreplace")]
        click.echo(shlex.join(words))
        return
    if options.verbose:
        click.echo(f"> {method} {client.address}{path}", err=True)
    answer = client.raw(method, path, body or None, dict(options.headers), filter=options.filter)
    try:
        click.echo(json.dumps(json.loads(answer), indent=4) if method != "GET" else answer)
    except ValueError:
        click.echo(answer)
