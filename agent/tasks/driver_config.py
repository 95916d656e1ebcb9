"""What a driver is given to start one attempt of a prepared task. Pure."""

from __future__ import annotations

from agent.drivers.base import TaskConfig, TaskPort, TaskResources
from agent.drivers.config import TaskConfigError
from agent.hooks.base import TaskSetup
from agent.tasks.config_evaluation import ConfigScope
from orchgit.model.base import NS_PER_S
from orchgit.model.runtime_variables import allocated_ports, allocated_task


def task_config(setup: TaskSetup, attempt: int) -> TaskConfig:
    """Everything a driver needs to start this attempt.

    Raises TaskConfigError for a `config` that cannot be evaluated.
    """
    task, alloc = setup.task, setup.alloc
    environment = setup.environment()
    scope = ConfigScope(environment.names, environment.env)
    config, problems = scope.evaluate(task.config or {})
    if problems:
        raise TaskConfigError(task.driver, task.name, problems)
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
        job_name=setup.job.name,
        namespace=alloc.namespace,
        task_group=alloc.task_group,
        node_id=setup.node.id,
        node_name=setup.node.name,
        config=config,
        env=environment.env,
        user=environment.interpolate.text(task.user),
        resources=TaskResources(
            cpu_shares=given.cpu.cpu_shares,
            reserved_cores=tuple(given.cpu.reserved_cores or ()),
            memory_mb=given.memory.memory_mb,
            memory_max_mb=given.memory.memory_max_mb,
            cpu_fraction=given.cpu.cpu_shares
            / max(1, setup.node.node_resources.cpu.cpu_shares, given.cpu.cpu_shares),
        ),
        mounts=(*setup.mounts, *setup.results.devices.mounts),
        ports=tuple(ports),
        devices=setup.results.devices,
        network=setup.network,
        logs=task.log_config,
        kill_signal=task.kill_signal,
        kill_timeout_s=task.kill_timeout_ns / NS_PER_S,
    )
