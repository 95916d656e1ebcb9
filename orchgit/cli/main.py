"""`orchgit`: the table of commands, loaded one by one, and how errors end the program."""

from __future__ import annotations

import signal
import sys

import click

from orchgit import __version__
from orchgit.cli.command import FAILURE, cli_group
from orchgit.cli.printing.standard_streams import flushed, prepare_streams
from orchgit.cli.printing.terminal import guard_terminal
from orchgit.errors import OrchgitError

INTERRUPTED = 130
"""The exit code after an interrupt, as shells have it."""

COMMANDS = {
    "acl": ("acl", "acl", "Access control: tokens, policies, roles, logins"),
    "action": ("job_action", "action", "The same as `job action`"),
    "agent": ("agent", "agent", "Run a server, a client, or both"),
    "agent-info": ("agent_info", "agent_info", "Version, roles and statistics of an agent"),
    "alloc": ("alloc", "alloc", "Inspect allocations: status, logs, exec, stop, restart"),
    "blame": ("blame", "blame", "Show the commit and line that something running comes from"),
    "completion": ("completion", "completion", "Print shell completion for bash, zsh or fish"),
    "config": ("config", "config", "Check the configuration of agents"),
    "deployment": ("deployment", "deployment", "Follow, promote, pause and fail deployments"),
    "dev": ("dev", "dev", "Run a single-machine cluster with a git repository, to try orchgit"),
    "diff": ("diff", "diff", "Show what pushing this working tree, or a commit, would change"),
    "eval": ("eval", "eval_", "Inspect and delete evaluations"),
    "event": ("event", "event", "Follow the cluster's events"),
    "exec": ("alloc_exec", "exec_", "The same as `alloc exec`"),
    "fmt": ("fmt", "fmt", "Format job files"),
    "git-credential": (
        "git_credential",
        "git_credential",
        "Give git the token for the built-in remote",
    ),
    "import": ("import_jobs", "import_jobs", "Write the jobs of a running cluster as job files"),
    "inspect": ("job_history", "inspect", "The same as `job inspect`"),
    "job": ("job", "job", "Run, plan, inspect, stop and revert jobs"),
    "lint": ("lint", "lint", "Check job files offline"),
    "login": ("login", "login", "Get a token from an identity provider"),
    "logs": ("logs", "logs", "Show the logs of all tasks of a job, each line with its task"),
    "monitor": ("monitor", "monitor", "Follow the log of a server or client"),
    "namespace": ("namespace", "namespace", "Manage namespaces"),
    "node": ("node", "node", "Inspect and drain nodes, change their eligibility"),
    "operator": (
        "operator",
        "operator",
        "Operate the cluster: scheduler, Raft, snapshots, keys, metrics",
    ),
    "plan": ("job_run", "plan", "The same as `job plan`"),
    "plugin": ("plugin", "plugin", "Show storage (CSI) plugins"),
    "quota": ("quota", "quota", "Limit the resources that namespaces may use"),
    "rollout": ("rollout", "rollout", "Inspect, approve and revert rollouts of commits"),
    "run": ("job_run", "run", "The same as `job run`"),
    "scaling": ("scaling", "scaling", "Show the scaling policies of jobs"),
    "server": ("server", "server", "List, add and remove servers"),
    "service": ("service", "service", "List, inspect and delete registered services"),
    "simulate": ("simulate", "simulate", "Run many simulated nodes, for load tests of servers"),
    "source": ("source", "source", "Manage the git repositories that the cluster follows"),
    "sql": ("sql", "sql", "Query the cluster's state in SQL, read-only"),
    "start": ("job_change", "start", "The same as `job start`"),
    "status": ("status", "status", "List jobs, or show the status of any object by its id"),
    "stop": ("job_change", "stop", "The same as `job stop`"),
    "system": ("system", "system", "Collect garbage, recompute derived records"),
    "tls": ("tls", "tls", "Create the cluster's certificate authority and certificates"),
    "ui": ("ui", "ui", "Print the web address of the UI, or of one object in it"),
    "validate": ("job_run", "validate", "The same as `job validate`"),
    "var": ("var", "var", "Manage variables: secrets and settings, with locks"),
    "version": ("version", "version", "Show the version of this program"),
    "volume": ("volume", "volume", "Manage volumes and the claims on them"),
}


@cli_group(
    "orchgit",
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "-help", "--help"]},
)
@click.version_option(__version__, "-version", "--version", message="orchgit v%(version)s")
def cli() -> None:
    """git push is the only deploy command.

    Commands talk to the server at -address, ORCHGIT_ADDR or NOMAD_ADDR
    (default http://127.0.0.1:4646). For https:// give the authority of the servers by -ca-cert or
    NOMAD_CACERT; servers that want a certificate, -client-cert and -client-key as well.
    """


def main() -> None:
    """Runs the command line and ends the program.

    A known error is one line on standard error and exit code 1. Once the command has ended, by an
    interrupt too, a further interrupt ends the program at once and without a word.
    """
    prepare_streams()
    guard_terminal()
    code = run(sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(flushed(code))


def run(arguments: list[str]) -> int:
    """Runs one command, prints its errors, and returns its exit code."""
    try:
        code = cli.main(arguments, prog_name="orchgit", standalone_mode=False)
    except SystemExit as end:
        code = end.code
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("Stopped: nothing more is done.", err=True)
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        context = getattr(error, "ctx", None)
        return getattr(context and context.command, "failure_code", FAILURE)
    except OrchgitError as error:
        click.echo(f"Error: {error.message}", err=True)
        return getattr(error, "exit_code", FAILURE)
    except BrokenPipeError:
        # Nobody reads the rest, as behind `| head`.
        return FAILURE
    except OSError as error:
        what = f"use {error.filename}" if error.filename else "read or write"
        click.echo(f"Error: cannot {what}: {error.strerror or error}", err=True)
        return FAILURE
    return code if isinstance(code, int) else 0
