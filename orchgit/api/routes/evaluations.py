"""Evaluations: lists, one, counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace
from starlette.responses import Response

from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import ApiCall
from orchgit.api.pagination import PageRequest, by_index, in_order_of_creation
from orchgit.api.routes.allocations import answer_allocations
from orchgit.api.routing import endpoint
from orchgit.api.shapes import go_json
from orchgit.api.shapes.evaluations import shown_evaluations
from orchgit.errors import RefusedError
from orchgit.filters import FieldError, parse_filter
from orchgit.model.base import datetime_of_ns
from orchgit.model.evaluation import Evaluation
from orchgit.replication.commands.evaluations import DeleteEvaluations
from orchgit.state.snapshot import Snapshot

_DELETE = go_json.Fields(
    "structs.EvalDeleteRequest", {"EvalIDs": go_json.texts, "Filter": go_json.text}
)


async def list_evaluations(call: ApiCall) -> Response:
    page, prefix = PageRequest.of(call), call.id_prefix("eval lookup failed: ")
    chooses_more = call.query.get("job") or call.query.get("status")
    may_page_by_keys = not chooses_more and (call.namespaces or call.sees_everything)

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        if page.per_page and page.matches is None and may_page_by_keys:
            return _page_by_keys(snapshot, call.namespaces, prefix, page)
        found = _chosen(call, snapshot)
        chosen, headers = page.apply(found, by_index)
        return shown_evaluations(snapshot, chosen, found), headers

    return await answer_list(call, ("evaluations",), read)


def _page_by_keys(
    snapshot: Snapshot, namespace: str | None, prefix: str, page: PageRequest
) -> tuple[list[Evaluation], dict[str, str]]:
    """Returns one page; reads only the page's own rows and what follows from them, the rest by
    their keys."""
    keys = snapshot.evaluations.keys(namespace, prefix)
    chosen, headers = page.apply(keys, lambda key: f"{key[0]}.{key[1]}")
    found = [each for _, id_ in chosen if (each := snapshot.evaluations.get(id_)) is not None]
    jobs = {(each.namespace, each.job_id) for each in found}
    known = [each for job in jobs for each in snapshot.evaluations.of_job(*job)]
    return shown_evaluations(snapshot, found, known), headers


def _chosen(call: ApiCall, snapshot: Snapshot) -> list[Evaluation]:
    job, status = call.query.get("job"), call.query.get("status")
    prefix = call.id_prefix("eval lookup failed: ")
    found = (
        snapshot.evaluations.of_job(call.namespaces, job)
        if job and call.namespaces
        else snapshot.evaluations.all(call.namespaces, prefix)
    )
    return in_order_of_creation(
        each
        for each in call.visible(found)
        if each.id.startswith(prefix)
        and job in (None, "", each.job_id)
        and status in (None, "", each.status)
    )


async def read_evaluation(call: ApiCall) -> Response:
    eval_id, related = call.object_id("eval_id", "eval"), call.flag("related")

    def read(snapshot: Snapshot) -> Evaluation | None:
        found = snapshot.evaluations.get(eval_id)
        if found is None:
            return None
        of_job = snapshot.evaluations.of_job(found.namespace, found.job_id)
        (found,) = shown_evaluations(snapshot, [found], of_job)
        return replace(found, related_evals=_related(snapshot, found, of_job)) if related else found

    key = "" if related else eval_id
    return await answer_object(call, ("evaluations",), read, "eval not found", key=key)


def _related(
    snapshot: Snapshot, start: Evaluation, of_job: Sequence[Evaluation]
) -> list[dict[str, Any]]:
    """Returns every evaluation that led to this one or follows from it."""
    known = {each.id: each for each in of_job}
    followers: dict[str, list[str]] = {}
    for each in known.values():
        followers.setdefault(each.previous_eval, []).append(each.id)
    seen, queue = {start.id}, [start]
    while queue:
        each = queue.pop()
        names = (each.previous_eval, each.next_eval, each.blocked_eval)
        for name in (*names, *followers.get(each.id, ())):
            if name in known and name not in seen:
                seen.add(name)
                queue.append(known[name])
    found = in_order_of_creation(known[name] for name in seen - {start.id})
    return [_related_stub(each) for each in shown_evaluations(snapshot, found, of_job)]


def _related_stub(each: Evaluation) -> dict[str, Any]:
    return {
        "ID": each.id,
        "Priority": each.priority,
        "Type": each.type,
        "TriggeredBy": each.triggered_by,
        "Namespace": each.namespace,
        "JobID": each.job_id,
        "NodeID": each.node_id,
        "DeploymentID": each.deployment_id,
        "Status": each.status,
        "StatusDescription": each.status_description,
        "WaitUntil": datetime_of_ns(each.wait_until) if each.wait_until else None,
        "NextEval": each.next_eval,
        "PreviousEval": each.previous_eval,
        "BlockedEval": each.blocked_eval,
        "CreateIndex": each.create_index,
        "ModifyIndex": each.modify_index,
        "CreateTime": each.create_time_ns,
        "ModifyTime": each.modify_time_ns,
    }


async def allocations(call: ApiCall) -> Response:
    return await answer_allocations(
        call, lambda snapshot: snapshot.allocations.of_eval(call.path["eval_id"])
    )


async def count(call: ApiCall) -> Response:
    page = PageRequest.of(call)

    def read(snapshot: Snapshot) -> dict[str, Any]:
        try:
            found, _ = replace_per_page(page).apply(_chosen(call, snapshot), by_index)
        except FieldError:
            found = []  # as Nomad answers
        return {
            "Count": len(found),
            "Index": snapshot.table_indexes.newest("evaluations"),
            "LastContact": 0,
            "KnownLeader": True,
            "NextToken": "",
        }

    return await answer_list(call, ("evaluations",), read)


def replace_per_page(page: PageRequest) -> PageRequest:
    """Asks for all pages at once: counting is not paged."""
    return PageRequest(page.matches, 0, "", page.reverse)


async def delete(call: ApiCall) -> Response:
    """Deletes evaluations by id, which is safe only while the broker is paused."""
    body = await call.fields(_DELETE, may_be_empty=True)
    with call.context.snapshot() as snapshot:
        paused = snapshot.scheduler_config.get().pause_eval_broker
    if not paused:
        raise RefusedError("eval broker is enabled; eval broker must be paused to delete evals")
    ids = _ids_to_delete(call, body)
    command = DeleteEvaluations(now_ns=call.context.now_ns(), eval_ids=ids)
    applied = await call.context.propose(command)
    return call.answer({"Count": len(ids), "Index": applied.index}, index=applied.index)


def _ids_to_delete(call: ApiCall, body: Mapping[str, Any]) -> list[str]:
    """Returns the ids that the body names, or those that fit its filter or the query's.

    As with Nomad's command line, a filter covers the evaluations of one namespace, or of all (`*`).
    """
    ids: list[str] = body.get("EvalIDs") or []
    text = body.get("Filter") or call.query.get("filter") or ""
    if ids and text:
        raise RefusedError("evals cannot be deleted by both ID and filter")
    if not ids and not text:
        raise RefusedError("evals must be deleted by either ID or filter")
    with call.context.snapshot() as snapshot:
        if ids:
            return [each for each in ids if snapshot.evaluations.get(each) is not None]
        matches = parse_filter(text)
        return [each.id for each in _chosen(call, snapshot) if matches(each)]


ENDPOINTS = [
    endpoint("/v1/evaluations", get=list_evaluations, delete=delete),
    endpoint("/v1/evaluations/count", get=count),
    endpoint("/v1/evaluation/{eval_id}", get=read_evaluation),
    endpoint("/v1/evaluation/{eval_id}/allocations", get=allocations),
]
