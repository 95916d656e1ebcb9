"""Follows an evaluation, its placements and its deployment until they end."""

from __future__ import annotations

from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.client.patient_reads import PatientReads
from orchgit.cli.printing.deployment_groups import show_groups
from orchgit.cli.printing.output import console, pairs, plain, short, styled
from orchgit.cli.printing.placement_failures import show_failures

TERMINAL_EVALS = frozenset(("complete", "failed", "canceled"))
TERMINAL_DEPLOYMENTS = frozenset(("successful", "failed", "cancelled", "blocked"))


def monitor_evaluation(
    client: ApiClient, eval_id: str, namespace: str, with_deployment: bool = True
) -> int:
    """Returns 0 when everything is placed and healthy, 1 for a failure, 2 if some could not be
    placed."""
    reads = PatientReads(client, f"evaluation {short(eval_id)}")
    evaluation = _wait_for_evaluation(reads, eval_id, namespace)
    console().print(f"==> Evaluation {short(eval_id)} is {styled(evaluation['Status'])}")
    for alloc in reads.get(f"/v1/evaluation/{eval_id}/allocations", namespace=namespace):
        console().print(
            f"    Allocation {short(alloc['ID'])} of group {plain(alloc['TaskGroup'])} "
            f"on node {short(alloc['NodeID'])}"
        )
    failures = evaluation.get("FailedTGAllocs") or {}
    if evaluation["Status"] != "complete":
        click.echo(f"    {evaluation.get('StatusDescription', '')}")
        return 1
    if failures:
        show_failures(failures)
        if evaluation.get("BlockedEval"):
            blocked = short(evaluation["BlockedEval"])
            click.echo(f"Evaluation {blocked} places the rest when the causes above are gone.")
        return 2
    next_eval = evaluation.get("NextEval")
    if next_eval:
        return monitor_evaluation(client, next_eval, namespace, with_deployment)
    if not with_deployment:
        return 0
    return monitor_deployment(client, evaluation, namespace)


def monitor_deployment(client: ApiClient, evaluation: dict[str, Any], namespace: str) -> int:
    """Follows the deployment of an evaluation's job, where it has one."""
    deployment_id = evaluation.get("DeploymentID") or _deployment_of(client, evaluation, namespace)
    return follow_deployment(client, deployment_id) if deployment_id else 0


def follow_deployment(client: ApiClient, deployment_id: str, wait: str | None = None) -> int:
    """Prints each change of a deployment until it has ended, and then its groups; returns 0 if it
    succeeded, or else 1."""
    index, last = 0, ""
    reads = PatientReads(client, f"deployment {short(deployment_id)}")
    waits = {"wait": wait} if wait else {}
    while True:
        index, data = reads.blocking_get(f"/v1/deployment/{deployment_id}", index, **waits)
        line = _progress_line(data)
        if line != last:
            last = line
            console().print(f"    Deployment {short(deployment_id)}: {line}")
        if data["Status"] in TERMINAL_DEPLOYMENTS:
            break
    click.echo()
    pairs(
        (
            ("ID", short(data["ID"])),
            ("Job ID", plain(data["JobID"])),
            ("Job Version", str(data["JobVersion"])),
            ("Status", styled(data["Status"])),
            ("Description", plain(data["StatusDescription"])),
        )
    )
    show_groups(data)
    return 0 if data["Status"] == "successful" else 1


def _progress_line(data: dict[str, Any]) -> str:
    groups = ", ".join(
        f"{plain(name)} {group['HealthyAllocs']}/{group['DesiredTotal']} healthy"
        + (f" {group['UnhealthyAllocs']} unhealthy" if group["UnhealthyAllocs"] else "")
        for name, group in sorted(data["TaskGroups"].items())
    )
    return f"{styled(data['Status'])} ({groups}) {plain(data['StatusDescription'])}"


def _deployment_of(client: ApiClient, evaluation: dict[str, Any], namespace: str) -> str | None:
    """Returns a job's newest deployment, if the evaluation's version of the job made it."""
    try:
        reads = PatientReads(client, f"job {evaluation['JobID']}")
        path = f"/v1/job/{quoted(evaluation['JobID'])}/deployment"
        found = reads.get(path, namespace=namespace)
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    if not found or found["JobSpecModifyIndex"] < evaluation["JobModifyIndex"]:
        return None
    return str(found["ID"])


def _wait_for_evaluation(reads: PatientReads, eval_id: str, namespace: str) -> dict[str, Any]:
    index = 0
    while True:
        index, evaluation = reads.blocking_get(
            f"/v1/evaluation/{eval_id}", index, namespace=namespace
        )
        if evaluation["Status"] in TERMINAL_EVALS:
            return dict(evaluation)
