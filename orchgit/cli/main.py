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
    "agent-info": ("agent_info", "agent_info", "What this server or client says of itself"),
    "alloc": ("alloc", "alloc", "Look into allocations: status, logs, exec, stop, restart"),
    "blame": ("blame", "blame", "The commit and line that something running comes from"),
    "completion": ("completion", "completion", "Completion for bash, zsh and fish"),
    "config": ("config", "config", "Check the configuration of agents"),
    "deployment": ("deployment", "deployment", "Follow, promote, pause and fail deployments"),
    "dev": ("dev", "dev", "One server, one agent and a git repository, for trying things out"),
    "diff": ("diff", "diff", "What pushing this working tree, or a commit, would change"),
    "eval": ("eval", "eval_", "Look into evaluations"),
    "event": ("event", "event", "Follow the cluster's events"),
    "exec": ("alloc_exec", "exec_", "The same as `alloc exec`"),
    "fmt": ("fmt", "fmt", "Lay out job files"),
    "git-credential": (
        "git_credential",
        "git_credential",
        "Give git the token for the built-in remote",
    ),
    "import": ("import_jobs", "import_jobs", "Write a cluster's jobs as job files"),
    "inspect": ("job_history", "inspect", "The same as `job inspect`"),
    "job": ("job", "job", "Run, plan, inspect, stop and revert jobs"),
    "lint": ("lint", "lint", "Check job files offline"),
    "login": ("login", "login", "Get a token from an identity provider"),
    "logs": ("logs", "logs", "What all tasks of a job write, each line with where it is from"),
    "monitor": ("monitor", "monitor", "Follow the log of a server or client"),
    "namespace": ("namespace", "namespace", "Manage namespaces"),
    "node": ("node", "node", "Look into nodes, drain them, make them eligible"),
    "operator": ("operator", "operator", "Scheduler configuration, metrics, root keys"),
    "plan": ("job_run", "plan", "The same as `job plan`"),
    "plugin": ("plugin", "plugin", "Storage plugins"),
    "quota": ("quota", "quota", "Limit what the allocations of namespaces take"),
    "rollout": ("rollout", "rollout", "Commits going out: list, status, revert"),
    "run": ("job_run", "run", "The same as `job run`"),
    "scaling": ("scaling", "scaling", "What an autoscaler may do with the counts of jobs"),
    "server": ("server", "server", "The servers of this cluster"),
    "service": ("service", "service", "Services that tasks offer"),
    "simulate": ("simulate", "simulate", "Many simulated nodes, to see how far the servers reach"),
    "source": ("source", "source", "Git repositories that the cluster follows"),
    "sql": ("sql", "sql", "Ask a read-only question in SQL about the cluster"),
    "start": ("job_change", "start", "The same as `job start`"),
    "status": ("status", "status", "What runs here; or the status of anything by its id"),
    "stop": ("job_change", "stop", "The same as `job stop`"),
    "system": ("system", "system", "Garbage collection"),
    "tls": ("tls", "tls", "An authority of the cluster's own, and its certificates"),
    "ui": ("ui", "ui", "The address of the pages, or of the page of something"),
    "validate": ("job_run", "validate", "The same as `job validate`"),
    "var": ("var", "var", "Variables: secrets and settings, with check-and-set and locks"),
    "version": ("version", "version", "The version of this program"),
    "volume": ("volume", "volume", "Volumes and the claims on them"),
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
