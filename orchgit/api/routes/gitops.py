"""`/v1/gitops`: sources, rollouts, previews, and the way from an allocation to its commit."""

from __future__ import annotations

import asyncio
import base64
from functools import partial
from typing import Any

from msgspec.structs import replace
from starlette.responses import Response

from orchgit.acl.capabilities import LIST, READ_GITOPS
from orchgit.acl.jobs import STOP, missing_in_namespace
from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import ApiCall
from orchgit.api.caller import name_of_person, user_name
from orchgit.api.errors import text_response
from orchgit.api.gitops_port import HeldChoice, RollbackPerson
from orchgit.api.pagination import PageRequest, by_index
from orchgit.api.routes import source_adopt, source_rename, source_status
from orchgit.api.routes.source_status import required_gitops
from orchgit.api.routing import endpoint
from orchgit.api.shapes import nomad_json
from orchgit.errors import ConflictError, InvalidInputError, NotAllowedError, NotFoundError
from orchgit.model.blame import Blame
from orchgit.model.node import Node
from orchgit.model.rollout import Rollout, RolloutStatus
from orchgit.model.source import PauseRecord, Source, SourceKind
from orchgit.model.variable import StoredVariable
from orchgit.services.gitops.blame import BlameQuestion, Thing, find_blame
from orchgit.services.gitops.held import kept_from_cluster
from orchgit.services.gitops.pauses import pause_source, resume_source
from orchgit.services.gitops.rollouts import delete_rollouts, find_rollout
from orchgit.services.gitops.sources import (
    change_source,
    check_change,
    create_source,
    give_back_job,
    release_job,
    remove_source,
)
from orchgit.state.snapshot import Snapshot

MAX_PLAN_BODY_BYTES = 64 * 1024 * 1024
_COMMIT_ID_LENGTHS = (40, 64)
_KEPT_BY_SERVER = frozenset(("Status", "Pause", "CreateIndex", "ModifyIndex"))
_REPLACED_WHOLE = frozenset(("Variables",))
"""Settings that are maps of any keys; other maps are groups of settings, changed one by one."""


async def put(call: ApiCall) -> Response:
    wanted = nomad_json.decode(await call.body(), Source)
    name = call.path["name"]
    if wanted.name not in ("", name):
        raise InvalidInputError("cannot store the source: its name does not match the path")
    wanted.name = name
    wanted.pause = _paused_now(call) if wanted.paused else PauseRecord()
    with call.context.snapshot() as snapshot:
        _check_is_new(snapshot, wanted)
    _check_grant(call, wanted)
    await _check_settings(call, wanted)
    index = await create_source(call.context, wanted)
    # Its loop may have begun with a round by itself: whichever comes first, nobody asked for it.
    call.api.wake_source(name, "", None)
    return call.answer({"Index": index}, index=index)


def _check_grant(call: ApiCall, wanted: Source) -> None:
    """Refuses settings by which a source could do more than the caller: a policy that the token
    does not have itself, also one that the source has already, or another namespace."""
    rights = call.rights
    if rights.is_management:
        return
    if not rights.allows_namespace(wanted.namespace, "gitops-source"):
        raise NotAllowedError(
            f'cannot store source "{wanted.name}": the token lacks gitops-source in namespace '
            f'"{wanted.namespace}"'
        )
    held = call.access.caller.policies
    if more := [name for name in wanted.policies if name not in held]:
        raise NotAllowedError(
            f'cannot store source "{wanted.name}": it would apply with the policy "{more[0]}", '
            "which the token does not have itself"
        )


def _check_stop(call: ApiCall, name: str) -> None:
    """Refuses to stop the jobs of a source where the caller may not stop each of them."""
    if call.rights.is_management:
        return
    with call.context.snapshot() as snapshot:
        namespaces = {namespace for namespace, _ in snapshot.jobs.keys_of_source(name)}
    for namespace in sorted(namespaces):
        if missing := missing_in_namespace(call.rights, namespace, STOP):
            raise NotAllowedError(
                f'cannot stop the jobs of source "{name}": the token lacks {missing}'
            )


def _check_is_new(snapshot: Snapshot, wanted: Source) -> None:
    """Refuses a name whose removed source was of another kind.

    A name leads to the repository of a removed source too: what another kind of source fetched must
    stay unreachable.
    """
    name = wanted.name
    if snapshot.sources.get(name) is not None:
        raise ConflictError(
            f'cannot add source "{name}": there is one of that name; `orchgit source set {name}` '
            f"(PUT /v1/gitops/source/{name}/settings) changes it"
        )
    repository = wanted.repository_name
    others = snapshot.sources.of_repository(repository)
    if others and not wanted.repository and wanted.kind == others[0].kind == SourceKind.BUILTIN:
        raise ConflictError(
            f'cannot add source "{name}": source "{others[0].name}" follows the built-in '
            f"repository of that name; `-repository {name}` (Repository) shares it, another name "
            "there makes a new one"
        )
    if others and (wanted.kind != SourceKind.BUILTIN or others[0].kind != SourceKind.BUILTIN):
        raise ConflictError(
            f'cannot add source "{name}": "{repository}" is the repository of source '
            f'"{others[0].name}", and only built-in sources share one'
        )
    was_builtin = bool(others) or bool(snapshot.git_refs.of_source(repository))
    if was_builtin and wanted.kind != SourceKind.BUILTIN:
        raise ConflictError(
            f'cannot add source "{name}": a built-in repository of that name is kept; choose '
            "another name"
        )
    if (
        wanted.kind == SourceKind.BUILTIN
        and not was_builtin
        and snapshot.rollouts.applied_commits(repository, 1)
    ):
        raise ConflictError(
            f'cannot add source "{name}": the history of a removed source of another kind has that '
            "name; choose another name"
        )


async def _check_settings(call: ApiCall, wanted: Source) -> None:
    """Checks a source's settings in a thread, as a path is looked up on the disk."""
    if call.api.gitops is not None:
        await asyncio.to_thread(call.api.gitops.check_source, wanted)


async def change(call: ApiCall) -> Response:
    """Changes the settings that the body names; ignores what the server keeps about a source."""
    sent = nomad_json.decode_tree(await call.body())
    body = nomad_json.fold_keys(sent, Source)
    given = {key.lower() for key, value in sent.items() if value is not None}
    unknown = sorted(given - {key.lower() for key in body})
    if unknown:
        raise InvalidInputError(f"cannot change the source: it has no setting {unknown[0]!r}")
    named = {key: value for key, value in body.items() if key not in _KEPT_BY_SERVER}

    def changed(source: Source) -> Source:
        settings = nomad_json.tree(source)
        groups = {
            key: {**settings[key], **value}
            for key, value in named.items()
            if isinstance(value, dict) and key not in _REPLACED_WHOLE
        }
        wanted = nomad_json.convert({**settings, **named, **groups}, Source)
        pause = source.pause
        if wanted.paused != source.paused:
            pause = _paused_now(call)
        return replace(wanted, status=source.status, pause=pause)

    name = call.path["name"]
    with call.context.snapshot() as snapshot:
        known = snapshot.sources.get(name)
    if known is not None:
        wanted = changed(known)
        check_change(known, wanted)
        _check_grant(call, wanted)
        await _check_settings(call, wanted)
    index = await change_source(call.context, name, changed)
    call.api.wake_source(name, user_name(call), call.author)
    return call.answer({"Index": index}, index=index)


async def delete(call: ApiCall) -> Response:
    """Removes a source; with `stop` its jobs are stopped, else they go on without a source."""
    name = call.path["name"]
    if call.flag("stop"):
        _check_stop(call, name)
    stop = call.flag("stop")
    with call.context.snapshot() as snapshot:
        stopped = snapshot.jobs.keys_of_source(name) if stop else []
    index = await remove_source(call.context, name, stop=stop)
    gitops, warnings = call.api.gitops, []
    if gitops is not None and gitops.is_declared(name):
        warnings.append(
            f'the configuration names source "{name}": remove its block on every server, or the '
            "next server that leads adds it again"
        )
    jobs = [{"Namespace": namespace, "JobID": job_id} for namespace, job_id in stopped]
    return call.answer({"Index": index, "Warnings": warnings, "Stopped": jobs}, index=index)


async def release(call: ApiCall) -> Response:
    """Takes a job out of its source; with `Undo` gives it back."""
    body = nomad_json.decode_tree(await call.body())
    job_id, undo = nomad_json.get(body, "JobID", ""), nomad_json.get(body, "Undo", False)
    namespace = nomad_json.get(body, "Namespace", "") or call.namespace
    if not (isinstance(job_id, str) and isinstance(namespace, str) and job_id):
        raise InvalidInputError("cannot release a job: JobID names it")
    act = give_back_job if undo else release_job
    index = await act(call.context, namespace, job_id)
    return call.answer({"Index": index}, index=index)


async def pause(call: ApiCall) -> Response:
    body = await _sent(call)
    index = await pause_source(
        call.context,
        call.path["name"],
        user_name(call, nomad_json.get(body, "By", "")),
        nomad_json.get(body, "Reason", ""),
        nomad_json.get(body, "For", 0),
    )
    return call.answer({"Index": index}, index=index)


def _paused_now(call: ApiCall) -> PauseRecord:
    """Returns the record of a source that is paused or resumed as one of its settings."""
    return PauseRecord(by=user_name(call), at_ns=call.context.now_ns())


async def _sent(call: ApiCall) -> dict[str, Any]:
    """Returns the request's body, which may be left out."""
    body = await call.body()
    return nomad_json.decode_tree(body) if body.strip() else {}


async def resume(call: ApiCall) -> Response:
    body, name = await _sent(call), call.path["name"]
    by = user_name(call, nomad_json.get(body, "By", ""))
    index = await resume_source(call.context, name, by, nomad_json.get(body, "Reason", ""))
    call.api.wake_source(name, by, call.author)
    return call.answer({"Index": index}, index=index)


async def drift(call: ApiCall) -> Response:
    """Returns the jobs that differ from what the applied commits of their sources want."""
    page, wanted = PageRequest.of(call), call.query.get("source") or None
    namespace = call.namespaces if "namespace" in call.query else None

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        found = call.visible(snapshot.drifted_jobs.all(wanted, namespace))
        return page.apply(found, lambda each: each.id)

    return await answer_list(call, ("drifted_jobs",), read)


async def drift_patch(call: ApiCall) -> Response:
    """Returns a patch for `git apply` that makes the files of drifted jobs say what runs."""
    source = call.query.get("source", "")
    if not source:
        raise InvalidInputError("cannot make a patch: name a source with `?source=`")
    return text_response(await required_gitops(call).drift_patch(source), 200)


async def held(call: ApiCall) -> Response:
    """Lists the versions of jobs that the source keeps from the cluster; with `all` also those that
    failed and stayed registered, and those that it would keep if git had them again."""
    name, every = call.path["name"], call.flag("all")

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        if snapshot.sources.get(name) is None:
            raise NotFoundError(f'cannot find source "{name}"; `orchgit source list` shows them')
        known = snapshot.held_versions.known_of_source(name) if every else None
        return (kept_from_cluster(snapshot, name) if known is None else known), {}

    return await answer_list(call, ("held_versions", "jobs", "sources"), read)


async def retry(call: ApiCall) -> Response:
    """Applies held versions again: those of `Jobs` (ids in the request's namespace), or `All`."""
    body = await _sent(call)
    jobs, every = nomad_json.get_texts(body, "Jobs"), nomad_json.get(body, "All", False)
    if bool(jobs) == every:
        raise InvalidInputError(
            "cannot retry: name the jobs (Jobs is a list of job ids), or set All to true"
        )
    choice = HeldChoice([(call.namespace, job_id) for job_id in jobs], every)
    by = name_of_person(call, body)
    rollout = await required_gitops(call).retry(call.path["name"], choice, by, call.writes)
    return call.answer(rollout, index=call.context.state.store.watch.applied_index)


async def plan(call: ApiCall) -> Response:
    """Returns what a commit with these files would do to `BaseFiles`, or to what is
    registered now. With `Fit`, the scheduler may plan for a minute.

    How a registered job differs is left out in namespaces that the caller may not read: the files
    are the caller's own, and the source's policies may open more than the caller's token does.
    """
    body = nomad_json.decode_tree(await call.body(MAX_PLAN_BODY_BYTES))
    base = nomad_json.get(body, "BaseFiles", kind=list)
    planned = await required_gitops(call).plan_files(
        call.path["name"],
        _files(nomad_json.get(body, "Files", [])),
        None if base is None else _files(base),
        nomad_json.get(body, "Fit", False),
    )
    if base is not None:
        return call.answer(planned)
    counts: dict[str, Any] = {"DesiredTGUpdates": {}}
    hidden = {"Diff": None, "ByHand": None, **counts, "Annotations": counts}
    rights = call.rights
    jobs = [
        job
        if any(rights.allows_namespace(job["Namespace"], each) for each in READ_GITOPS)
        else {**job, **hidden}
        for job in planned["Jobs"]
    ]
    return call.answer({**planned, "Jobs": jobs})


def _files(entries: list[dict[str, Any]]) -> list[tuple[str, bytes]]:
    try:
        return [
            (
                nomad_json.get(each, "Path", ""),
                base64.b64decode(nomad_json.get(each, "Content", "")),
            )
            for each in entries
        ]
    except ValueError as error:
        raise InvalidInputError(f"cannot read the files: not base64 ({error})") from error


async def rollouts(call: ApiCall) -> Response:
    """Lists rollouts, the newest first: those of `source`, in one of the `status` (separated by
    commas), of commits whose ids begin with `commit`."""
    page, wanted = PageRequest.of(call), call.query.get("source") or None
    commit, status = call.query.get("commit", ""), call.query.get("status", "")
    statuses = {each.strip() for each in status.split(",")} if status else None
    if unknown := sorted((statuses or set()) - set(RolloutStatus)):
        raise InvalidInputError(
            f"cannot list rollouts of status {unknown[0]!r}: it is one of "
            f"{', '.join(RolloutStatus)}"
        )

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        filters = page.matches or commit or statuses
        whole = filters or page.next_token or page.reverse or not page.per_page
        whole = whole or not call.sees_everything
        limit = None if whole else page.per_page + 1
        commit_id = commit if len(commit) in _COMMIT_ID_LENGTHS else None
        newest = snapshot.rollouts.all(wanted, limit, commit_id)
        namespaces = {each.name: each.namespace for each in snapshot.sources.all()}
        found = [
            each
            for each in newest
            if each.commit.id.startswith(commit)
            and (not statuses or each.status in statuses)
            and (call.sees_everything or call.sees(namespaces.get(each.source, "")))
        ]
        return page.apply(found, by_index)

    return await answer_list(call, ("rollouts",), read)


async def rollout(call: ApiCall) -> Response:
    rollout_id = call.path["rollout_id"]
    return await answer_object(
        call,
        ("rollouts",),
        lambda snapshot: find_rollout(snapshot, rollout_id),
        f'cannot find rollout "{rollout_id}"; `orchgit rollout list` shows them',
        lambda found: _with_token(call, found),
    )


def _with_token(call: ApiCall, found: Rollout) -> dict[str, Any]:
    """Adds whose token the last change of the rollout by a person bore."""
    with call.context.snapshot() as snapshot:
        change = snapshot.authored_changes.get("rollouts", found.id)
    token = None if change is None else nomad_json.tree(change)
    shown: dict[str, Any] = nomad_json.tree(found)
    return {**shown, "Token": token}


async def report(call: ApiCall) -> Response:
    """Returns why jobs of a rollout failed, with the end of their output, and the addresses of its
    services."""
    return call.answer(await required_gitops(call).rollout_report(_known_rollout(call)))


def _known_rollout(call: ApiCall) -> Rollout:
    """Returns the rollout that the path names. Raises NotFoundError if there is none."""
    text = call.path["rollout_id"]
    with call.context.snapshot() as snapshot:
        found = find_rollout(snapshot, text)
    if found is None:
        raise NotFoundError(f'cannot find rollout "{text}"; `orchgit rollout list` shows them')
    return found


async def revert(call: ApiCall) -> Response:
    """Goes back to the commit before a rollout's; with `DryRun` returns the plan of that."""
    found = _known_rollout(call)
    person = _person_of(call, await _sent(call))
    return call.answer(await required_gitops(call).revert(found.id, person, call.writes))


async def rollback(call: ApiCall) -> Response:
    """Takes a source back to an earlier commit; with `DryRun` returns the plan of that."""
    body = await _sent(call)
    commit = nomad_json.get(body, "Commit", "")
    if not commit:
        raise InvalidInputError("cannot go back: Commit names the commit to go back to")
    gitops = required_gitops(call)
    made = await gitops.rollback(call.path["name"], commit, _person_of(call, body), call.writes)
    return call.answer(made)


def _person_of(call: ApiCall, body: dict[str, Any]) -> RollbackPerson:
    return RollbackPerson(
        by=name_of_person(call, body),
        email=nomad_json.get(body, "Email", ""),
        reason=nomad_json.get(body, "Reason", ""),
        delete=nomad_json.get_texts(body, "Delete"),
        expected_plan=nomad_json.get(body, "PlanHash", ""),
        dry_run=nomad_json.get(body, "DryRun", False),
    )


async def approve(call: ApiCall) -> Response:
    """Approves the plan of a rollout that waits; `PlanHash` names the plan."""
    body, found = await _sent(call), _known_rollout(call)
    plan_hash, by = nomad_json.get(body, "PlanHash", ""), name_of_person(call, body)
    return call.answer(await required_gitops(call).approve(found.id, plan_hash, by, call.writes))


async def reject(call: ApiCall) -> Response:
    """Ends a rollout that waits, for the given `Reason`."""
    body, found = await _sent(call), _known_rollout(call)
    reason, by = nomad_json.get(body, "Reason", ""), name_of_person(call, body)
    return call.answer(await required_gitops(call).reject(found.id, reason, by, call.writes))


async def forget(call: ApiCall) -> Response:
    index = await delete_rollouts(call.context, [call.path["rollout_id"]])
    return call.answer({"Index": index}, index=index)


async def blame(call: ApiCall) -> Response:
    """Follows an allocation, node, volume, claim, variable or job back to the line of a commit;
    `type` says which, `group` chooses a group of a job."""
    query = call.query
    question = BlameQuestion(
        call.path["id"], call.namespace, query.get("type", ""), query.get("group", "")
    )

    def read(snapshot: Snapshot) -> Blame | None:
        found = find_blame(snapshot, question, partial(_is_seen, call))
        return found and replace(found, origins=call.visible(found.origins))

    what = question.type or "an allocation, node, volume, claim, job or variable"
    return await answer_object(
        call,
        ("allocations", "volume_claims", "jobs", "nodes", "host_volumes", "variables"),
        read,
        f'cannot find {what} "{question.text}" in namespace {question.namespace}; '
        "`orchgit status` lists its jobs, -namespace selects another",
    )


def _is_seen(call: ApiCall, thing: Thing) -> bool:
    """Returns whether the answer may tell of the thing."""
    if isinstance(thing, Node):
        return call.sees_nodes
    if isinstance(thing, StoredVariable):
        return call.rights.allows_variable(thing.namespace, thing.path, LIST)
    return call.sees(thing.namespace)


ENDPOINTS = [
    *source_status.ENDPOINTS,
    *source_adopt.ENDPOINTS,
    *source_rename.ENDPOINTS,
    endpoint("/v1/gitops/source/{name}", get=source_status.source, put=put, delete=delete),
    endpoint("/v1/gitops/source/{name}/settings", put=change),
    endpoint("/v1/gitops/source/{name}/pause", put=pause),
    endpoint("/v1/gitops/source/{name}/resume", put=resume),
    endpoint("/v1/gitops/source/{name}/plan", put=plan),
    endpoint("/v1/gitops/source/{name}/held", get=held),
    endpoint("/v1/gitops/source/{name}/retry", put=retry),
    endpoint("/v1/gitops/source/{name}/rollback", put=rollback),
    endpoint("/v1/gitops/release", put=release),
    endpoint("/v1/gitops/drift", get=drift),
    endpoint("/v1/gitops/drift/patch", get=drift_patch),
    endpoint("/v1/gitops/rollouts", get=rollouts),
    endpoint("/v1/gitops/rollout/{rollout_id}", get=rollout, delete=forget),
    endpoint("/v1/gitops/rollout/{rollout_id}/report", get=report),
    endpoint("/v1/gitops/rollout/{rollout_id}/revert", put=revert),
    endpoint("/v1/gitops/rollout/{rollout_id}/approve", put=approve),
    endpoint("/v1/gitops/rollout/{rollout_id}/reject", put=reject),
    endpoint("/v1/gitops/blame/{id:path}", get=blame),
]
