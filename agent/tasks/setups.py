"""What the hooks and the services of a task are given: the node's, the allocation's and its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from agent.context import AllocContext, NodeContext
from agent.hooks.base import HookResults, TaskSetup
from agent.hooks.vault import vault_access
from agent.identities.task_identities import TaskIdentities
from agent.tasks.progress import TaskProgress
from agent.templates.cluster_reads import Reader
from agent.templates.task_templates import TaskTemplates
from orchgit.model.allocation import TaskEvent
from orchgit.model.task import Task


@dataclass(frozen=True, slots=True)
class TaskParts:
    """The parts of one task that live as long as its runner."""

    identities: TaskIdentities
    templates: TaskTemplates
    emit: Callable[[TaskEvent], None]
    done: set[str] = field(default_factory=set)
    """Hooks that need not run again."""
    results: HookResults = field(default_factory=HookResults)


def task_parts(
    node: NodeContext, context: AllocContext, task: Task, progress: TaskProgress
) -> TaskParts:
    alloc = context.alloc
    job_id = context.job.parent_id or context.job.id
    place = f"{alloc.namespace}/{job_id}/{alloc.task_group}/{task.name}"
    access = partial(vault_access, task, context.paths.task(task.name).task_dir)
    reader = Reader(alloc.id, task.name, alloc.namespace, place, access)
    return TaskParts(
        TaskIdentities(
            alloc.id,
            task.name,
            node.sign_identities,
            node.clock,
            progress.record.tokens,
            lambda tokens: progress.save(tokens=tokens),
        ),
        TaskTemplates(node.templates.reads, reader),
        progress.add,
    )


def task_setup(
    node: NodeContext, context: AllocContext, task: Task, parts: TaskParts, is_again: bool
) -> TaskSetup:
    """Returns the setup as things are now. `is_again`: the task ran before."""
    return TaskSetup(
        node=node.node(),
        region=node.region,
        job=context.job,
        group=context.group,
        task=task,
        alloc=context.alloc,
        paths=context.paths.task(task.name),
        volume_sources=context.volume_sources,
        host_env=node.host_env,
        isolation=node.driver(task.driver).isolation,
        clock=node.clock,
        emit=parts.emit,
        templates=node.templates,
        task_templates=parts.templates,
        fetch_limits=node.fetch_limits,
        identities=parts.identities,
        devices=node.devices,
        task_api=node.task_api,
        secrets=node.secrets,
        network=context.network,
        set_up_network=context.set_up_network,
        vault=node.vault,
        done=parts.done,
        results=parts.results,
        template_env=parts.templates.variables(),
        is_again=is_again,
    )
