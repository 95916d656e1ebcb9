"""`orchgit job`: what is done with jobs."""

from __future__ import annotations

from orchgit.cli.command import cli_group


@cli_group(
    "job",
    lazy={
        "action": ("job_action", "action", "Run a named command (action) of a job"),
        "allocs": ("job_status", "allocs", "List the allocations of a job"),
        "deployments": ("job_status", "deployments", "List the deployments of a job"),
        "dispatch": ("job_change", "dispatch", "Start an instance of a parameterized job"),
        "eval": ("job_change", "evaluate", "Create a new evaluation of a job"),
        "export": ("import_jobs", "export", "Print a job as a job file"),
        "history": ("job_history", "history", "List the versions of a job, with their commits"),
        "init": ("job_init", "init", "Write an example job file"),
        "inspect": (
            "job_history",
            "inspect",
            "The whole job as JSON, or its text",
        ),
        "periodic": ("job_change", "periodic", "Run a periodic job at once"),
        "plan": ("job_run", "plan", "Show what running a job file would change"),
        "promote": ("job_change", "promote", "Promote the canaries of a job"),
        "restart": ("job_restart", "restart", "Restart a job's allocations in batches"),
        "revert": ("job_change", "revert", "Revert a job to an earlier version"),
        "run": ("job_run", "run", "Register the job of a file and follow its evaluation"),
        "scale": ("job_change", "scale", "Change the count of a group"),
        "scaling-events": (
            "job_history",
            "scaling_events",
            "List when a job's counts were changed",
        ),
        "set-image": ("set_image", "set_image", "Change the images in job files, and nothing else"),
        "start": ("job_change", "start", "Start a stopped job again"),
        "status": (
            "job_status",
            "status",
            "List jobs, or show one with its allocations and commit",
        ),
        "stop": ("job_change", "stop", "Stop jobs"),
        "tag": ("job_history", "tag", "Tag versions of a job with names"),
        "validate": ("job_run", "validate", "Check a job file by the server's rules"),
    },
)
def job() -> None:
    """Run, plan, inspect, stop and revert jobs."""
