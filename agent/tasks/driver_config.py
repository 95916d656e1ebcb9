"""A prepared task as its driver is told of it, and its end as the servers are told of it. Pure."""

from __future__ import annotations

from agent.drivers.base import ExitResult, TaskConfig, TaskPort, TaskResources
from agent.hooks.base import TaskSetup
from agent.tasks import task_state
from agent.tasks.environment import allocated_task
from agent.tasks.task_state import Happened
from orchgit.model.allocation import TaskEvent
from orchgit.model.base import NS_PER_S
from orchgit.model.runtime_variables import allocated_ports


def task_config(setup: TaskSetup, attempt: int) -> TaskConfig:
    """Everything a driver needs to start this attempt."""
    task, alloc = setup.task, setup.alloc
    environment = setup.environment()
    given = allocated_task(alloc, task)
    ports = [
        TaskPort(port.label, port.value, max(0, port.to), port.host_ip)
        for port in allocated_ports(alloc)
    ]
    return TaskConfig(
        alloc_id=alloc.id,
        task_name=task.name,
        attempt=attempt,
        task_dir=setup.paths.for_driver(),
        job_id=alloc.job_id,
        task_group=alloc.task_group,
        config=environment.interpolate.tree(task.config or {}),
        env=environment.env,
        user=environment.interpolate.text(task.user),
        resources=TaskResources(
            cpu_shares=given.cpu.cpu_shares,
            reserved_cores=tuple(given.cpu.reserved_cores or ()),
            memory_mb=given.memory.memory_mb,
            memory_max_mb=given.memory.memory_max_mb,
        ),
        mounts=tuple(setup.mounts),
        ports=tuple(ports),
        logs=task.log_config,
        kill_signal=task.kill_signal,
        kill_timeout_s=task.kill_timeout_ns / NS_PER_S,
    )


def terminated_event(result: ExitResult, now_ns: int) -> TaskEvent:
    """How the attempt ended, when it did."""
    message = f"Exit Code: {result.exit_code}"
    if result.signal:
        message += f", Signal: {result.signal}"
    if result.oom_killed:
        message += ', Exit Message: "OOM Killed"'
    elif result.error:
        message += f', Exit Message: "{result.error}"'
    return task_state.event(
        Happened.TERMINATED,
        result.finished_ns or now_ns,
        message,
        exit_code=result.exit_code,
        signal=result.signal,
        driver_message=result.error,
        details={
            "exit_code": str(result.exit_code),
            "signal": str(result.signal),
            "oom_killed": str(result.oom_killed).lower(),
        },
    )
