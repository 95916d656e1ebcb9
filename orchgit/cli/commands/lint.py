"""`orchgit lint PATH...`: check job files offline."""

from __future__ import annotations

import json
from pathlib import Path

import click

from orchgit.cli.options import option
from orchgit.errors import JobFileError, OrchgitError

SUFFIXES = (".nomad.hcl", ".nomad", ".hcl")


@click.command("lint")
@click.argument("paths", nargs=-1, required=True)
@option("var", multiple=True, help="Variable, NAME=VALUE; may be repeated.")
@option("json", dest="as_json", is_flag=True, help="Print the problems as JSON.")
def lint(paths: tuple[str, ...], var: tuple[str, ...], as_json: bool) -> None:
    """Check job files and directories of them; exit 1 when there are problems."""
    from jobspec.files import CurrentDirectory
    from jobspec.parse import parse_job

    variables = dict(each.split("=", 1) for each in var if "=" in each)
    problems: list[str] = []
    files = [found for each in paths for found in _job_files(Path(each))]
    for path in files:
        try:
            parse_job(
                path.read_bytes(),
                filename=str(path),
                variables=variables,
                files=CurrentDirectory(),
                strict=False,
            )
        except JobFileError as error:
            problems.extend(error.problems or [str(error)])
        except (OSError, OrchgitError) as error:
            problems.append(f"{path}: {error}")
    if as_json:
        click.echo(json.dumps({"Files": len(files), "Problems": problems}, indent=4))
    else:
        for problem in problems:
            click.echo(problem, err=True)
        click.echo(f"{len(files)} files, {len(problems)} problems")
    raise SystemExit(1 if problems else 0)


def _job_files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(p for p in path.rglob("*") if p.is_file() and p.name.endswith(SUFFIXES))
    return [path]
