"""`orchgit var`: list, get, put, purge, lock."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from typing import Any
from urllib.parse import quote

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_group
from orchgit.cli.options import connected, formatted, option
from orchgit.cli.printing.output import ago, pairs, plain, table
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.durations import parse_length_ns

CONFLICT = 409
RENEWALS_PER_TTL = 3


@cli_group("var")
def var() -> None:
    """Variables: secrets and settings for jobs and people."""


def _url(path: str) -> str:
    """Returns the path's URL; slashes are part of a variable's path."""
    return f"/v1/var/{quote(path)}"


@var.command("list")
@click.argument("prefix", default="")
@formatted
@connected
def list_(client: ApiClient, prefix: str, output: OutputFormat) -> None:
    """Variables whose path begins with PREFIX; not what is in them."""
    found = client.get("/v1/vars", prefix=prefix)
    if not output.printed(found):
        table(
            ("Namespace", "Path", "Last Updated", "Locked"),
            (
                (
                    plain(each["Namespace"]),
                    plain(each["Path"]),
                    ago(each["ModifyTime"]),
                    "yes" if each.get("Lock") else "",
                )
                for each in found
            ),
            empty="No variables",
        )


@var.command("get")
@click.argument("path")
@option("item", help="Print the value of this item only.")
@formatted
@connected
def get(client: ApiClient, path: str, item: str | None, output: OutputFormat) -> None:
    """A variable with its items."""
    found = client.get(_url(path))
    if item is not None:
        if item not in found["Items"]:
            raise ApiError(f"cannot find item {item!r} in variable {path!r}")
        click.echo(found["Items"][item])
    elif not output.printed(found):
        _show(found)


def _show(found: dict[str, Any]) -> None:
    pairs(
        (
            ("Namespace", plain(found["Namespace"])),
            ("Path", plain(found["Path"])),
            ("Last Updated", ago(found["ModifyTime"])),
            ("Check Index", found["ModifyIndex"]),
            ("Locked", "yes" if found.get("Lock") else ""),
        )
    )
    click.echo("\nItems")
    pairs((plain(name), plain(value)) for name, value in found["Items"].items())


@var.command("put")
@click.argument("path")
@click.argument("items", nargs=-1, required=True)
@option("force", is_flag=True, help="Write over whatever is there.")
@option("check-index", type=int, help="Write only over this modify index; 0: only a new one.")
@connected
def put(
    client: ApiClient, path: str, items: tuple[str, ...], force: bool, check_index: int | None
) -> None:
    """Write a variable that is not there yet; see -force and -check-index for others.

    ITEMS are name=value; or one dash, to read a JSON object from standard input. The values of
    arguments can be seen by every user of this machine while the command runs: use the dash for
    secrets.
    """
    if force and check_index is not None:
        raise click.UsageError("cannot use -force together with -check-index")
    body = {"Items": _items(items)}
    params = {} if force else {"cas": str(check_index or 0)}
    try:
        stored = client.put(_url(path), body, **params)
    except ApiError as error:
        raise _explained(error, path) from None
    click.echo(f"Variable {path!r} is stored; its check index is {stored['ModifyIndex']}.")


def _items(arguments: tuple[str, ...]) -> dict[str, str]:
    if arguments == ("-",):
        return _read_items(sys.stdin.read())
    items = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"cannot read {argument!r} as an item; write name=value")
        items[name] = value
    return items


def _read_items(text: str) -> dict[str, str]:
    """Reads a JSON object of strings, or a variable as `orchgit var get -json` prints it."""
    try:
        data = json.loads(text)
    except ValueError:
        raise click.BadParameter("cannot read standard input as JSON") from None
    if isinstance(data, dict) and isinstance(data.get("Items"), dict):
        data = data["Items"]
    if not isinstance(data, dict) or not all(isinstance(value, str) for value in data.values()):
        raise click.BadParameter("cannot use standard input: a JSON object of strings is expected")
    return data


def _explained(error: ApiError, path: str) -> ApiError:
    """Returns a refusal without the current variable, whose values must not be printed."""
    if error.status != CONFLICT:
        return error
    return ApiError(
        f"cannot write variable {path!r}: it is locked, or not at the expected check index; read "
        "it again, or use -force",
        CONFLICT,
    )


@var.command("purge")
@click.argument("path")
@option("check-index", type=int, help="Delete only this modify index.")
@connected
def purge(client: ApiClient, path: str, check_index: int | None) -> None:
    """Delete a variable for good."""
    params = {} if check_index is None else {"cas": str(check_index)}
    try:
        client.delete(_url(path), **params)
    except ApiError as error:
        raise _explained(error, path) from None
    click.echo(f"Variable {path!r} is deleted.")


@var.command(
    "lock", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@option("ttl", default="15s", help="How long the lock lasts when it is not renewed.")
@option("delay", default="15s", help="How long nobody gets the lock after it ran out.")
@connected
@click.argument("path")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def lock(client: ApiClient, path: str, command: tuple[str, ...], ttl: str, delay: str) -> None:
    """Run COMMAND while holding the lock of a variable; its exit code is this command's.

    If the lock is lost, COMMAND is terminated.
    """
    ttl_s = parse_length_ns(ttl) / 1e9
    body = {"Lock": {"TTL": ttl, "LockDelay": delay}}
    try:
        held = _lock_operation(client, path, "lock-acquire", body)
    except ApiError as error:
        if error.status == CONFLICT:
            raise ApiError(
                f"cannot lock variable {path!r}: another client holds the lock"
            ) from None
        raise
    raise SystemExit(_run_locked(client, path, held["Lock"]["ID"], command, ttl_s))


def _lock_operation(client: ApiClient, path: str, name: str, body: dict[str, Any]) -> Any:
    return client.put(_url(path), body, **{name: "true"})


def _run_locked(
    client: ApiClient, path: str, lock_id: str, command: tuple[str, ...], ttl_s: float
) -> int:
    body, done = {"Lock": {"ID": lock_id}}, threading.Event()
    try:
        process = subprocess.Popen(command)
        renewing = threading.Thread(target=_renew, args=(client, path, body, ttl_s, process, done))
        renewing.start()
        code = _ended(process)
    except OSError as error:
        raise ApiError(f"cannot run {command[0]!r}: {error.strerror}") from error
    finally:
        done.set()
        with contextlib.suppress(ApiError):
            _lock_operation(client, path, "lock-release", body)
    return code if code >= 0 else 128 - code


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Waits for the command, which gets an interrupt too: the lock lasts until it has ended."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            return process.wait()


def _renew(
    client: ApiClient,
    path: str,
    body: dict[str, Any],
    ttl_s: float,
    process: subprocess.Popen[bytes],
    done: threading.Event,
) -> None:
    """Renews the lock; tries a failed renewal again, ends the command at a refused or late one."""
    failures = 0
    while not done.wait(ttl_s / RENEWALS_PER_TTL):
        try:
            _lock_operation(client, path, "lock-renew", body)
            failures = 0
        except ApiError as error:
            failures += 1
            if error.status in (CONFLICT, 404) or failures == RENEWALS_PER_TTL:
                click.echo(f"Error: the lock of {path!r} is lost; stopping the command", err=True)
                process.terminate()
                return
