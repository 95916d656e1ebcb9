"""`orchgit lint PATH...`: check job files offline."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

from orchgit.cli.command import cli_command
from orchgit.cli.job_files.job_files import var_file_contents
from orchgit.cli.job_files.paths import SUFFIXES, found_files
from orchgit.cli.options import named_values, option
from orchgit.cli.printing.output import counted

if TYPE_CHECKING:
    from orchgit.cli.job_files.linting import Finding


@cli_command("lint")
@click.argument("paths", nargs=-1, required=True)
@option("var", multiple=True, help="Variable, NAME=VALUE; may be repeated.")
@option("var-file", multiple=True, help="File of variables; may be repeated.")
@option("json", dest="as_json", is_flag=True, help="Print the findings as JSON.")
@option("sarif", dest="as_sarif", is_flag=True, help="Print the findings as SARIF 2.1.0.")
def lint(
    paths: tuple[str, ...],
    var: tuple[str, ...],
    var_file: tuple[str, ...],
    as_json: bool,
    as_sarif: bool,
) -> None:
    """Check job files and directories of them; exit 1 when there are mistakes.

    Their language, what a server would refuse, and two files for one job. Needs no server; what
    depends on one (namespaces, node pools, policies) is not checked.
    """
    # Reading HCL is what few commands do; the others do not pay for its import.
    from orchgit.cli.job_files.linting import ERROR, LintSettings, lint_files

    suffixes = (*SUFFIXES, ".nomad.json")
    found = found_files(paths, recursive=True, suffixes=suffixes)
    files = [each for each in found if each not in var_file]
    named = frozenset(path for path in paths if not os.path.isdir(path))
    settings = LintSettings(named_values("var", var), var_file_contents(var_file), named=named)
    findings = lint_files(files, settings)
    if as_sarif:
        from orchgit.cli.printing.sarif import sarif_log  # imports the reader of job files

        click.echo(json.dumps(sarif_log(findings), indent=2))
    elif as_json:
        _print_json(findings, len(files))
    else:
        for finding in findings:
            click.echo(finding.pretty(), err=True)
        problems = sum(finding.level == "error" for finding in findings)
        warnings = len(findings) - problems
        told = [counted(len(files), "file"), counted(problems, "problem")]
        told += [counted(warnings, "warning")] * bool(warnings)
        click.echo(", ".join(told))
    raise SystemExit(1 if any(each.level == ERROR for each in findings) else 0)


def _print_json(findings: list[Finding], files: int) -> None:
    shown: list[dict[str, Any]] = [
        {
            "File": each.path,
            "Line": each.line,
            "Column": each.column,
            "Rule": each.rule,
            "Level": each.level,
            "Message": each.message,
        }
        for each in findings
    ]
    problems = [f"{each.place}: {each.message}" for each in findings if each.level == "error"]
    click.echo(json.dumps({"Files": files, "Problems": problems, "Findings": shown}, indent=4))
