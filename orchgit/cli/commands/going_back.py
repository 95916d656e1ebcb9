"""`orchgit rollout revert` and `orchgit source rollback`: a plan, a question, an earlier commit."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.commands.source_held import follow_to_end
from orchgit.cli.options import connected, detach_option, formatted, option, yes_option
from orchgit.cli.printing.output import plain, short
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.cli.user_name import user_name

if TYPE_CHECKING:
    from orchgit.cli.job_files.revert_branch import RevertBranch

_MAX_LISTED = 20


@cli_command("revert")
@click.argument("identifier")
@option("reason", help="Why; it is recorded in the rollout and in the revert commit.")
@option("delete", multiple=True, help="A job to delete though it owns volume claims; repeatable.")
@option("patch", help="Write the change for the remote's branch to this file, for `git am`.")
@option("branch", help="Push the change as this branch of the remote, from the clone here.")
@detach_option
@yes_option
@formatted
@connected
def revert(client: ApiClient, identifier: str, **given: Any) -> None:
    """Revert a rollout: run the jobs of the commit before it.

    Shows what that changes, and asks. What the reverted commit changed is not applied again until
    it changes once more, or `orchgit source retry` asks for it.
    """
    bad = client.get(f"/v1/gitops/rollout/{identifier}")
    _go_back(client, f"/v1/gitops/rollout/{bad['ID']}/revert", {}, given)


@cli_command("rollback")
@click.argument("name")
@click.argument("commit")
@option("reason", help="Why; it is recorded in the rollout and in the commit on a built-in branch.")
@option("delete", multiple=True, help="A job to delete though it owns volume claims; repeatable.")
@option("patch", help="Write the change for the remote's branch to this file, for `git am`.")
@option("branch", help="Push the change as this branch of the remote, from the clone here.")
@detach_option
@yes_option
@formatted
@connected
def rollback(client: ApiClient, name: str, commit: str, **given: Any) -> None:
    """Take a source back to any earlier commit: run the jobs that it had then.

    Shows what that changes, and asks. A built-in branch gets a commit with the earlier tree. A
    remote's branch stays as it is: what was taken back is not applied again until its file changes.
    """
    _go_back(client, f"/v1/gitops/source/{name}/rollback", {"Commit": commit}, given)


def _go_back(client: ApiClient, url: str, body: dict[str, Any], given: dict[str, Any]) -> None:
    # Imported here: other commands need none of their modules, and should start fast.
    from orchgit.cli.commands.diff import show_plan

    output: OutputFormat = given["output"]
    output.refuse_question(given["yes"])
    body |= {"By": user_name(), "Email": _email(), "Delete": list(given["delete"])}
    body["Reason"] = given["reason"] or ""
    plan = client.post(url, {**body, "DryRun": True})
    target = plan["Target"]
    if output.is_text:
        _show(plan, target)
        show_plan(plan, verbose=False)
    elif plan["Problems"]:
        output.printed(plan)
    if plan["Problems"]:
        raise SystemExit(1)
    if given["patch"]:
        _write_patch(Path(given["patch"]), plan["Patch"])
    branch = _branch(given["branch"], plan) if given["branch"] else None
    if not given["yes"]:
        if not click.confirm("Go back?"):
            return
        body["PlanHash"] = plan["PlanHash"]
    answer = client.post(url, body)
    if output.is_text:
        click.echo(f"Going back to {short(target['ID'])} in rollout {short(answer['ID'])}...")
    if branch is not None:
        branch.push(plan["Message"])
    elif plan["Commands"] and output.is_text:
        click.echo("The remote's branch still has what was taken back. In a clone of it:")
        for command in plan["Commands"]:
            click.echo(f"  {command}")
    follow_to_end(client, answer, given["detach"], output)


def _show(plan: dict[str, Any], target: dict[str, Any]) -> None:
    """Prints which commits are taken back."""
    click.echo(f"Going back to {short(target['ID'])} {plain(target['Subject'])!r} takes back:")
    for commit in plan["TakenBack"][:_MAX_LISTED]:
        about = f"{plain(commit['Subject'])} ({plain(commit['Author'])})"
        click.echo(f"  {short(commit['ID'])} {about}")
    if len(plan["TakenBack"]) > _MAX_LISTED:
        click.echo(f"  and {len(plan['TakenBack']) - _MAX_LISTED} more commits")


def _branch(name: str, plan: dict[str, Any]) -> RevertBranch:
    """Returns the branch to push. Raises ApiError for a source whose branch the server changes."""
    from orchgit.cli.job_files.revert_branch import RevertBranch

    if not plan["Commands"]:
        raise ApiError("cannot push a branch: the source is built in, and its branch goes back too")
    return RevertBranch.of_clone(name, plan["AppliedCommit"], plan["Target"]["ID"])


def _write_patch(path: Path, patch: str) -> None:
    if not patch:
        raise ApiError(
            "cannot write a patch: the source is built in, whose branch is changed by the server, "
            "or the change is too large; use the commands of git"
        )
    path.write_text(patch)
    about = f"Wrote the change to {path}: `git am {path}` applies it to the remote's branch."
    click.echo(about, err=True)


def _email() -> str:
    """Returns the address that git uses here, or ''."""
    command = ["git", "config", "--get", "user.email"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()[:100]
