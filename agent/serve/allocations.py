"""`/v1/client/allocation/...`: use of resources, checks, restart, signal, garbage."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from agent.allocations.alloc_runner import AllocRunner
from agent.drivers.signals import check_signal
from agent.migration.snapshot import DATA_SIZE_HEADER, data_size_bytes, write_snapshot
from agent.serve.pipes import piped
from agent.serve.replies import body_of, check_no_page, json_reply
from agent.services.registrations import RunningCheck
from orchgit.errors import DriverError, NotAllowedError, NotFoundError
from orchgit.model.base import NS_PER_S
from orchgit.query_values import first_values

if TYPE_CHECKING:
    from agent.agent import Agent

_WRITE = ["PUT", "POST"]


def routes(agent: Agent) -> list[BaseRoute]:
    allocations = _Allocations(agent)
    base = "/v1/client/allocation/{alloc_id}"
    return [
        Route(f"{base}/stats", allocations.stats),
        Route(f"{base}/checks", allocations.checks),
        Route(f"{base}/restart", allocations.restart, methods=_WRITE),
        Route(f"{base}/signal", allocations.signal, methods=_WRITE),
        Route(f"{base}/pause", allocations.pause, methods=["GET", *_WRITE]),
        Route(f"{base}/snapshot", allocations.snapshot),
        Route(f"{base}/gc", allocations.gc, methods=["GET", *_WRITE]),
    ]


class _Allocations:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def _runner(self, request: Request) -> AllocRunner:
        return self._agent.allocations.get(request.path_params["alloc_id"])

    async def restart(self, request: Request) -> Response:
        body = await body_of(request)
        task = str(body.get("taskname") or body.get("task") or "")
        self._runner(request).restart(task, all_tasks=bool(body.get("alltasks")))
        return json_reply({"Index": 0})

    async def signal(self, request: Request) -> Response:
        body = await body_of(request)
        signal = str(body.get("signal") or "")
        task = str(body.get("task") or body.get("taskname") or "")
        runner = self._runner(request)
        named = runner.tasks.get(task)
        if named is None or named.handle is not None:
            check_signal(signal)  # a task that does not run is refused as such
        await runner.signal(signal, task)
        return json_reply({"Index": 0})

    async def gc(self, request: Request) -> Response:
        check_no_page(request)
        runner = self._runner(request)
        if runner.local.files_removed or not await self._agent.garbage.collect_one(runner):
            raise DriverError("No such allocation on client, or allocation not eligible for GC")
        return Response()

    async def snapshot(self, request: Request) -> Response:
        """Answers a server's proof only, which the agent that takes the data over has."""
        if not self._agent.access().proves(request.scope):
            raise NotAllowedError("Permission denied")
        runner = self._runner(request)
        if not runner.local.finished:
            raise DriverError("cannot give the allocation's data away: it still runs")
        if runner.local.files_removed:
            raise NotFoundError("the allocation's files have been garbage collected")
        root, tasks = runner.context.paths.root, list(runner.tasks)
        size_bytes = await asyncio.to_thread(data_size_bytes, root, tasks)
        return StreamingResponse(
            piped(lambda out: write_snapshot(root, tasks, out)),
            media_type="application/x-tar",
            headers={DATA_SIZE_HEADER: str(size_bytes)},
        )

    async def pause(self, request: Request) -> Response:
        """Refuses: tasks that are paused by a schedule are Nomad Enterprise's."""
        raise DriverError("Enterprise only")

    async def checks(self, request: Request) -> Response:
        runner = self._runner(request)
        found = {check.id: _check_json(check, runner) for check in runner.services.checks.values()}
        return json_reply(found or None)

    # -- statistics --------------------------------------------------------------------------------

    async def stats(self, request: Request) -> Response:
        runner = self._runner(request)
        wanted = first_values(request.scope["query_string"]).get("task", "")
        running = {
            name: task.handle
            for name, task in runner.tasks.items()
            if task.handle is not None and wanted in ("", name)
        }
        used = await asyncio.gather(*(self._agent.usage.of(handle) for handle in running.values()))
        tasks = {
            name: _usage_json(one.memory_bytes, one.cpu_percent, one.cpu_mhz)
            for name, one in zip(running, used, strict=True)
        }
        now_ns = self._agent.clock.now_ns()
        return json_reply(
            {
                "ResourceUsage": _sum_usage(list(tasks.values())),
                "Tasks": {
                    name: {"Pids": None, "ResourceUsage": usage, "Timestamp": now_ns}
                    for name, usage in tasks.items()
                },
                "Timestamp": now_ns if tasks else 0,
            }
        )


def _usage_json(memory_bytes: int, percent: float, ticks_mhz: float) -> dict[str, Any]:
    return {
        "DeviceStats": [],
        "CpuStats": {
            "Measured": ["Percent", "Total Ticks"],
            "Percent": percent,
            "SystemMode": 0.0,
            "UserMode": percent,
            "ThrottledPeriods": 0,
            "ThrottledTime": 0,
            "TotalTicks": ticks_mhz,
        },
        "MemoryStats": {
            "Measured": ["RSS", "Usage"],
            "RSS": memory_bytes,
            "Usage": memory_bytes,
            "Cache": 0,
            "KernelMaxUsage": 0,
            "KernelUsage": 0,
            "MappedFile": 0,
            "MaxUsage": 0,
            "Swap": 0,
        },
    }


def _sum_usage(usages: list[dict[str, Any]]) -> dict[str, Any]:
    memory = sum(int(str(usage["MemoryStats"]["RSS"])) for usage in usages)
    percent = sum(float(str(usage["CpuStats"]["Percent"])) for usage in usages)
    ticks = sum(float(str(usage["CpuStats"]["TotalTicks"])) for usage in usages)
    total = _usage_json(memory, percent, 0.0)
    if not usages:
        total["CpuStats"]["Measured"] = total["MemoryStats"]["Measured"] = None
    total["CpuStats"]["TotalTicks"] = ticks
    return total


def _check_json(running: RunningCheck, runner: AllocRunner) -> dict[str, object]:
    return {
        "ID": running.id,
        "Check": running.check.name,
        "Group": f"{runner.context.alloc.name}",
        "Mode": "readiness" if running.check.on_update == "ignore" else "healthiness",
        "Output": running.state.output,
        "Service": running.service.name,
        "Task": running.owner,
        "Status": running.state.status,
        "Timestamp": running.state.checked_ns // NS_PER_S,
    }
