"""`orchgit job`: what is done with jobs."""

from __future__ import annotations

from orchgit.cli.command import cli_group


@cli_group(
    "job",
    lazy={
        "action": ("job_action", "action", "Run a command that a job has under a name"),
        "allocs": ("job_status", "allocs", "The allocations of a job"),
        "deployments": ("job_status", "deployments", "The deployments of a job"),
        "dispatch": ("job_change", "dispatch", "Launch a parameterized job"),
        "eval": ("job_change", "evaluate", "Look at a job again"),
        "export": ("import_jobs", "export", "Print a job as a job file"),
        "history": ("job_history", "history", "The versions of a job, with their commits"),
        "init": ("job_init", "init", "Write an example job file"),
        "inspect": (
            "job_history",
            "inspect",
            "The whole job as JSON, or its text",
        ),
        "periodic": ("job_change", "periodic", "Periodic jobs"),
        "plan": ("job_run", "plan", "What running a file would change"),
        "promote": ("job_change", "promote", "Make a job's canaries its version"),
        "restart": ("job_restart", "restart", "Restart a job's allocations, some at a time"),
        "revert": ("job_change", "revert", "Run a past version of a job again"),
        "run": ("job_run", "run", "Register the job of a file and follow it"),
        "scale": ("job_change", "scale", "Change the count of a group"),
        "scaling-events": ("job_history", "scaling_events", "When a job's counts were changed"),
        "set-image": ("set_image", "set_image", "Other images in job files, and nothing else"),
        "start": ("job_change", "start", "Start a stopped job again"),
        "status": ("job_status", "status", "All jobs, or one with its allocations and commit"),
        "stop": ("job_change", "stop", "Stop jobs"),
        "tag": ("job_history", "tag", "Names of versions"),
        "validate": ("job_run", "validate", "Check a job file; the server's rules included"),
    },
)
def job() -> None:
    """Run, plan, inspect, stop and revert jobs."""
