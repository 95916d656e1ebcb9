"""`orchgit sql`: questions in SQL about the cluster."""

from __future__ import annotations

import csv
import sys
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.input_text import text_of_path
from orchgit.cli.options import connected, formatted, option
from orchgit.cli.printing.output import plain, table
from orchgit.cli.printing.output_format import OutputFormat

_JSON_SHOWN = 24
"""So much of an object is shown on a terminal; -json, -csv and pipes have all of it."""


@cli_command("sql")
@click.argument("query", required=False)
@option("schema", is_flag=True, help="List the tables and columns that a question may name.")
@option("csv", dest="as_csv", is_flag=True, help="Print the answer as CSV, with a header.")
@option("limit", type=click.IntRange(0), help="Print at most this many rows.")
@formatted
@connected
def sql(
    client: ApiClient,
    query: str | None,
    schema: bool,
    as_csv: bool,
    limit: int | None,
    output: OutputFormat,
) -> None:
    """Ask a read-only question in SQL; QUERY `-` reads it from standard input.

    Tables: jobs, task_groups, allocations, nodes, evaluations, deployments, rollouts, sources,
    services. Which commit owns the failed allocations on nodes with kernel 5.x:

    \b
      orchgit sql "select a.commit_id, count(*) from allocations a
        join nodes n on n.id = a.node_id where a.client_status = 'failed'
        and n.attributes ->> '$.\\"kernel.version\\"' like '5.%' group by 1"
    """
    if schema:
        _print_schema(client, output)
        return
    if query == "-":
        query = text_of_path("-")
    if not query:
        raise ApiError("cannot ask nothing: give a SELECT, or -schema for the tables")
    answer = client.post("/v1/operator/sql?stale", {"Query": query, "MaxRows": limit})
    if answer["Truncated"] and limit is None:
        click.echo(f"Only the first {len(answer['Rows'])} rows: add a LIMIT or a WHERE.", err=True)
    if output.printed([dict(zip(answer["Columns"], row, strict=True)) for row in answer["Rows"]]):
        return
    if as_csv:
        lines = csv.writer(sys.stdout, lineterminator="\n")
        lines.writerow(answer["Columns"])
        lines.writerows(answer["Rows"])
        return
    table(
        [plain(name) for name in answer["Columns"]],
        [
            ["-" if value is None else plain(_cell(value)) for value in row]
            for row in answer["Rows"]
        ],
        empty="No rows",
    )


def _cell(value: object) -> str:
    """Returns the value in one line; on a terminal, of JSON its beginning."""
    text = str(value).replace("\n", " ")
    is_long = text.startswith(("{", "[")) and len(text) > _JSON_SHOWN and sys.stdout.isatty()
    return f"{text[: _JSON_SHOWN - 1]}\N{HORIZONTAL ELLIPSIS}" if is_long else text


def _print_schema(client: ApiClient, output: OutputFormat) -> None:
    tables: list[dict[str, Any]] = client.get("/v1/operator/sql")
    if output.printed(tables):
        return
    for each in tables:
        click.echo(f"{each['Name']}: {each['About']}")
        for column in each["Columns"]:
            click.echo(f"  {column['Name']:<16} {column['Type']:<8} {column['About']}")
