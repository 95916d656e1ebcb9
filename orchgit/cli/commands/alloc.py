"""`orchgit alloc`: what is done with allocations."""

from __future__ import annotations

from orchgit.cli.command import cli_group


@cli_group(
    "alloc",
    lazy={
        "checks": ("alloc_status", "checks", "Show the health checks of an allocation's services"),
        "exec": ("alloc_exec", "exec_", "Run a command in a running task"),
        "fs": ("alloc_fs", "fs", "List a directory, or print a file, of an allocation"),
        "logs": ("alloc_logs", "logs", "Show the output of a task"),
        "pause": ("alloc_change", "pause", "Pause or resume a task (Nomad Enterprise)"),
        "restart": ("alloc_change", "restart", "Restart tasks in place"),
        "signal": ("alloc_change", "signal", "Send a signal to tasks"),
        "status": (
            "alloc_status",
            "status",
            "List allocations, or show one with its tasks and commit",
        ),
        "stop": ("alloc_change", "stop", "Stop an allocation; the scheduler replaces it"),
    },
)
def alloc() -> None:
    """Look into allocations: status, logs, files, exec, stop, restart."""
