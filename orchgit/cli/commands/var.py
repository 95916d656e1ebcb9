"""`orchgit var`: list, get, put, purge, lock."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_group
from orchgit.cli.completion import VARIABLE, id_argument
from orchgit.cli.job_files.example_file import write_example
from orchgit.cli.job_files.job_files import read_input
from orchgit.cli.options import (
    PageOptions,
    connected,
    formatted,
    length,
    no_effect_option,
    option,
    option_field,
    options_of,
    ui_option,
)
from orchgit.cli.printing.output import ago, moment, pairs, plain, table
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.durations import parse_length_ns

CONFLICT = 409
RENEWALS_PER_TTL = 3
_LONGEST_WAIT_S = 60.0


@cli_group("var")
def var() -> None:
    """Variables: secrets and settings for jobs and people."""


def _url(path: str) -> str:
    """Returns the path's URL; slashes are part of a variable's path."""
    return f"/v1/var/{quote(path)}"


@var.command("list")
@id_argument("prefix", VARIABLE, default="")
@options_of(PageOptions, "page")
@option("out", type=click.Choice(("table", "json", "terse", "go-template")), help="The form.")
@ui_option
@formatted
@connected
def list_(
    client: ApiClient, prefix: str, page: PageOptions, out: str | None, output: OutputFormat
) -> None:
    """Variables whose path begins with PREFIX; not what is in them."""
    output = _form(out, output)
    found = page.get(client, "/v1/vars", prefix=prefix)
    if out == "terse":
        for each in found:
            click.echo(each["Path"])
    elif not output.printed(found):
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


def _form(out: str | None, output: OutputFormat) -> OutputFormat:
    """Returns what -out and -template ask for, beside -json and -t."""
    if out == "go-template" and output.template is None:
        raise click.UsageError("cannot use -out=go-template alone: give -template too")
    return replace(output, as_json=True) if out == "json" else output


@var.command("get")
@id_argument("path", VARIABLE)
@option("item", help="Print the value of this item only.")
@option("out", type=click.Choice(("table", "json", "hcl", "none", "go-template")), help="The form.")
@option("template", dest="go_template", help="The same as -t.")
@ui_option
@formatted
@connected
def get(
    client: ApiClient,
    path: str,
    item: str | None,
    out: str | None,
    go_template: str | None,
    output: OutputFormat,
) -> None:
    """A variable with its items."""
    if go_template is not None:
        output = replace(output, template=go_template)
    output = _form(out, output)
    found = client.get(_url(path))
    if item is not None:
        if item not in found["Items"]:
            raise ApiError(f"cannot find item {item!r} in variable {path!r}")
        click.echo(found["Items"][item])
    elif out == "hcl":
        click.echo(_as_hcl(found), nl=False)
    elif out != "none" and not output.printed(found):
        _show(found)


def _show(found: dict[str, Any]) -> None:
    pairs(
        (
            ("Namespace", plain(found["Namespace"])),
            ("Path", plain(found["Path"])),
            ("Create Time", moment(found["CreateTime"])),
            ("Last Updated", ago(found["ModifyTime"])),
            ("Check Index", found["ModifyIndex"]),
            ("Locked", "yes" if found.get("Lock") else ""),
        )
    )
    click.echo("\nItems")
    pairs((plain(name), plain(value)) for name, value in found["Items"].items())


@dataclass(frozen=True, slots=True)
class PutOptions:
    force: bool = option_field("force", is_flag=True, help="Write over whatever is there.")
    check_index: int | None = option_field(
        "check-index", type=int, help="Write only over this modify index; 0: only a new one."
    )
    form: str | None = option_field(
        "in", type=click.Choice(("hcl", "json")), help="The form of what is read."
    )
    out: str | None = option_field(
        "out",
        type=click.Choice(("none", "table", "json", "hcl", "go-template")),
        help="Print the variable as it is stored, in this form.",
    )
    template: str | None = option_field("template", "t", help="With a Go template.")


@var.command("put")
@id_argument("path", VARIABLE)
@click.argument("items", nargs=-1)
@options_of(PutOptions)
@no_effect_option("verbose", "what is stored is told anyway", is_flag=True)
@ui_option
@connected
def put(client: ApiClient, path: str, items: tuple[str, ...], options: PutOptions) -> None:
    """Write a variable that is not there yet; see -force and -check-index for others.

    ITEMS are name=value; or one dash, to read a JSON object from standard input; or one file, as
    @spec.nv.hcl, which may name the path too (`var init` writes an example). `name=@file` reads
    one value from a file, and adds to those that are read from -. The values of arguments can be
    seen by every user of this machine while the command runs: use the dash for secrets.
    """
    if options.force and options.check_index is not None:
        raise click.UsageError("cannot use -force together with -check-index")
    if path.startswith("@") or path == "-":
        spec = _spec("-" if path == "-" else path[1:], options.form)
        path = str(spec.get("Path") or "")
        if not path:
            raise click.UsageError("cannot tell where to write: the file names no path")
        given = dict(spec.get("Items") or {})
    elif items and (items[0].startswith("@") or items[0] == "-"):
        first, *items_left = items
        items = tuple(items_left)
        given = _spec("-" if first == "-" else first[1:], options.form).get("Items") or {}
    else:
        given = {}
    output = _form(options.out, OutputFormat(template=options.template))
    given = {**given, **_items(items)}
    if not given:
        raise click.UsageError("cannot write an empty variable: give name=value, @file or -")
    body = {"Items": given}
    params = {} if options.force else {"cas": str(options.check_index or 0)}
    try:
        stored = client.put(_url(path), body, **params)
    except ApiError as error:
        raise _explained(error, path) from None
    if options.out == "hcl":
        click.echo(_as_hcl(stored), nl=False)
    elif options.out == "table":
        _show(stored)
    elif not output.printed(stored):
        click.echo(f"Variable {path!r} is stored; its check index is {stored['ModifyIndex']}.")


def _items(arguments: tuple[str, ...]) -> dict[str, str]:
    items = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"cannot read {argument!r} as an item; write name=value")
        if value.startswith("@"):
            value = read_input(value[1:]).decode("utf-8", "replace")
        items[name] = value.removeprefix("\\") if value.startswith("\\@") else value
    return items


def _spec(path: str, form: str | None) -> dict[str, Any]:
    """Reads a variable: in HCL, or as JSON, where an object of strings is its items."""
    # Reading HCL is what few commands do; the others do not pay for its import.
    from orchgit.cli.job_files.specs import SpecEntry, plain_value, read_spec, text_map

    entries = {
        "path": SpecEntry("Path", plain_value),
        "namespace": SpecEntry("Namespace", plain_value),
        "items": SpecEntry("Items", text_map),
        "modify_index": SpecEntry("ModifyIndex", plain_value),
        "create_index": SpecEntry("CreateIndex", plain_value),
        "modify_time": SpecEntry("ModifyTime", plain_value),
        "create_time": SpecEntry("CreateTime", plain_value),
        "template": SpecEntry("Template", plain_value),
    }
    (data,) = read_spec(path, entries, as_json=form == "json" or (not form and path == "-"))
    if not isinstance(data.get("Items"), dict):
        data = {"Items": data}
    items = data["Items"]
    if not all(isinstance(value, str) for value in items.values()):
        raise click.BadParameter(f"cannot use {path}: every item has to be a text")
    return data


def _as_hcl(found: dict[str, Any]) -> str:
    items = "".join(
        f"  {json.dumps(name)} = {json.dumps(value)}\n"
        for name, value in sorted(found["Items"].items())
    )
    return f"path      = {json.dumps(found['Path'])}\nnamespace = " + (
        f"{json.dumps(found['Namespace'])}\n\nitems {{\n{items}}}\n"
    )


_EXAMPLE = """\
# A variable. Try it: orchgit var put @{name}
path = "path/to/variable"

# namespace = "default"

items {{
  key1 = "value 1"
  key2 = "value 2"
}}
"""


@var.command("init")
@click.argument("path", required=False)
@option("out", type=click.Choice(("hcl", "json")), default="hcl", help="The form of the example.")
@option("quiet", is_flag=True, help="Say nothing.")
def init(path: str | None, out: str, quiet: bool) -> None:
    """Write an example of a variable."""
    target = Path(path or f"spec.nv.{out}")
    text = _EXAMPLE.format(name=target)
    if out == "json":
        items = {"key1": "value 1", "key2": "value 2"}
        text = json.dumps({"Path": "path/to/variable", "Items": items}, indent=2) + "\n"
    write_example(target, text)
    if not quiet:
        click.echo(f"Example variable specification written to {target}")


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
@id_argument("path", VARIABLE)
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


@dataclass(frozen=True, slots=True)
class LockOptions:
    ttl: str = option_field(
        "ttl", type=length, default="15s", help="How long the lock lasts when it is not renewed."
    )
    delay: str = option_field(
        "delay", default="15s", help="How long nobody gets the lock after it ran out."
    )
    max_retry: int = option_field(
        "max-retry", type=int, default=5, help="How often to try again; 0: without end."
    )
    early_return: bool = option_field(
        "early-return", is_flag=True, help="Do not wait for another client's lock."
    )
    backoff: float = option_field(
        "backoff", type=float, default=2.0, help="Each wait is so many times the one before."
    )
    shell: bool = option_field(
        "shell", is_flag=True, switchable=True, default=None, help="Run COMMAND in a shell."
    )
    verbose: bool = option_field("verbose", is_flag=True, help="Say each time that it waits.")

    def backoff_s(self, tries: int) -> float:
        """How long to wait before the next try."""
        return min(_LONGEST_WAIT_S, max(1.0, self.backoff) ** (tries - 1))


@var.command("lock", context_settings={"allow_interspersed_args": False})
@options_of(LockOptions)
@connected
@id_argument("path", VARIABLE)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def lock(client: ApiClient, path: str, command: tuple[str, ...], options: LockOptions) -> None:
    """Run COMMAND while holding the lock of a variable; its exit code is this command's.

    If the lock is lost, COMMAND is terminated. Another client's lock is waited for, with -max-retry
    at most so many times.
    """
    ttl_s = parse_length_ns(options.ttl) / 1e9
    body = {"Lock": {"TTL": options.ttl, "LockDelay": options.delay}}
    held = _acquired(client, path, body, options)
    if options.shell:
        command = (os.environ.get("SHELL") or "/bin/sh", "-c", " ".join(command))
    raise SystemExit(_run_locked(client, path, held["Lock"]["ID"], command, ttl_s))


def _acquired(client: ApiClient, path: str, body: dict[str, Any], options: LockOptions) -> Any:
    """Returns the variable with its lock; tries again while another client holds it."""
    tries = 0
    while True:
        try:
            return _lock_operation(client, path, "lock-acquire", body)
        except ApiError as error:
            if error.status != CONFLICT:
                raise
        if options.early_return or (options.max_retry and tries >= options.max_retry):
            raise ApiError(f"cannot lock variable {path!r}: another client holds the lock")
        if options.verbose or not tries:
            click.echo(f"Waiting for the lock of variable {path!r} ...", err=True)
        tries += 1
        time.sleep(options.backoff_s(tries))


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
