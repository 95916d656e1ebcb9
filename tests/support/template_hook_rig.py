"""Recorded template cases through the hook and the rendering process alone: no server, no task.

The fast way to run many: a case takes a few milliseconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.hooks import alloc_dir, task_dir, templates
from agent.hooks.base import FatalSetupError, SetupError, TaskSetup
from agent.identities.task_identities import TaskIdentities, no_identities
from agent.paths import AllocPaths
from agent.templates.cluster_reads import ClusterReads, Reader
from agent.templates.renderer import RenderLimits, TemplateRenderer
from agent.templates.settings import NodeTemplates
from agent.templates.task_templates import TaskTemplates
from jobspec.canonicalize import to_job
from jobspec.validate import validate_job
from orchgit.clock import SystemClock
from orchgit.model.allocation import TaskEvent
from orchgit.wait_first import wait_first
from orchgit.wire.messages import TaskRead, TaskReadsReply, TaskReadValue
from tests.scenarios.run_task_env import HOST_ENV
from tests.support.factories import make_allocation, make_node
from tests.support.recorded_templates import files_below, whole_template
from tests.support.template_fixture import FIXTURE, one_task_job, task_of

_ISOLATION = {"raw_exec": "none", "exec": "chroot"}


class FixtureReads:
    """Answers what templates read from the fixture, as a server would."""

    def __init__(self) -> None:
        self.fixture = json.loads(FIXTURE.read_text())

    async def read(self, reads: list[TaskRead], wait_s: float) -> TaskReadsReply:
        values = []
        for position, each in enumerate(reads):
            value = self._value(each)
            data = json.dumps(value).encode()
            digest = hashlib.sha256(data).hexdigest()
            if digest != each.seen:
                values.append(TaskReadValue(position, digest, value is not None, data))
        if not values:
            await asyncio.Event().wait()
        return TaskReadsReply(values)

    def _value(self, read: TaskRead) -> Any:
        variables, services = self.fixture["variables"], self.fixture["services"]
        known = read.namespace == "default"
        match read.kind:
            case "variable":
                items = variables.get(read.name) if known else None
                return items and {**_metadata(read.name), "Items": items}
            case "variables":
                below = [path for path in sorted(variables) if path.startswith(read.name)]
                return [_metadata(path) for path in below if known]
            case "service":
                found = services.get(read.name, [])
                return [{**each, **_ids(number)} for number, each in enumerate(found)]
        return [
            {"ServiceName": name, "Tags": sorted({tag for one in found for tag in one["Tags"]})}
            for name, found in services.items()
        ]


def _metadata(path: str) -> dict[str, Any]:
    return {"Path": path, "Namespace": "default", "CreateIndex": 7, "ModifyIndex": 7}


def _ids(number: int) -> dict[str, Any]:
    return {"ID": f"service-{number}", "NodeID": "node", "AllocID": "alloc"}


class TemplateHookRig:
    """`run` gives what became of a case, in the shape of a recorded output without events."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._clock = SystemClock()
        self._templates = NodeTemplates(
            TemplateRenderer(RenderLimits(processor_s=60.0)),
            ClusterReads(FixtureReads().read, self._clock),
        )
        self._node = make_node(datacenter="dc1")

    async def close(self) -> None:
        await self._templates.reads.close()
        await self._templates.renderer.close()

    async def run(self, name: str, case: Mapping[str, Any]) -> dict[str, Any]:
        given = case["input"]
        task = task_of(
            Templates=[whole_template(each) for each in given["templates"]],
            Env=given["env"],
            Meta=given["meta"],
        )
        spec = one_task_job(name, task)
        job = to_job(spec)
        problems = validate_job(job).problems
        if problems:
            return {"outcome": "refused", "error": "\n".join(problems)}
        paths = AllocPaths(self._path / name)
        alloc_dir.create(paths)
        events: list[TaskEvent] = []
        setup = self._setup(job, paths, given.get("driver") or "raw_exec", events)
        await task_dir.prepare(setup)
        if there := given.get("file_there_before"):
            place = setup.environment().interpolate.text(there["path"])
            (setup.paths.task_dir / place / there["name"]).write_text(there["text"])
        outcome, said = await self._outcome(setup, events)
        setup.task_templates.close()
        masks = {str(self._path): "<DATA_DIR>/alloc", name: "<ALLOC_ID>"}
        return {
            "outcome": outcome,
            "files": files_below(paths.root, masks),
            "environment": setup.environment().env if outcome == "rendered" else {},
            "events": [{"Type": "", "DisplayMessage": said}],
        }

    async def _outcome(self, setup: TaskSetup, events: list[TaskEvent]) -> tuple[str, str]:
        async def blocked() -> None:
            while not events:
                await self._clock.sleep(0.001)

        try:
            async with wait_first(templates.prepare(setup), blocked()) as (work, _):
                if work.done():
                    work.result()
                    return "rendered", ""
        except FatalSetupError as error:
            return "failed", str(error)
        except SetupError as error:
            return "failed", str(error)
        return "blocked", events[-1].display_message

    def _setup(
        self, job: Any, paths: AllocPaths, driver: str, events: list[TaskEvent]
    ) -> TaskSetup:
        group = job.task_groups[0]
        alloc = make_allocation(job, self._node)
        reader = Reader(alloc.id, "t", alloc.namespace, f"{job.id}/t")
        return TaskSetup(
            node=self._node,
            region="global",
            job=job,
            group=group,
            task=group.tasks[0],
            alloc=alloc,
            paths=paths.task("t"),
            volume_sources={},
            host_env=HOST_ENV,
            isolation=_ISOLATION[driver],
            clock=self._clock,
            emit=events.append,
            templates=self._templates,
            task_templates=TaskTemplates(self._templates.reads, reader),
            identities=TaskIdentities(alloc.id, "t", no_identities, self._clock),
        )
