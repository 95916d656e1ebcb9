"""Renders the templates of a running task again when what they read has changed, and tells the
task: by a signal, a script or a restart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32

import structlog

from agent.drivers.base import ExecResult
from agent.hooks.base import FatalSetupError, SetupError, TaskSetup
from agent.hooks.rendering import render_templates
from agent.tasks import task_state
from agent.tasks.task_state import TaskEventType
from orchgit.errors import OrchgitError
from orchgit.model.allocation import TaskEvent
from orchgit.model.base import NS_PER_S
from orchgit.model.task import ChangeScript, Template
from orchgit.wait_first import wait_first

_log = structlog.get_logger(component="agent")
_RERENDERED = "Template re-rendered"
_RESTARTED = "Template with change_mode restart re-rendered"
_RETRY_S = 15.0


class TemplatedTask(Protocol):
    """What is done with a task whose templates changed: see `TaskRunner`."""

    def setup(self) -> TaskSetup: ...

    def restart(self, because: TaskEvent) -> None: ...

    def kill(self, because: TaskEvent) -> None: ...

    def happened(self, kind: TaskEventType, message: str) -> None: ...

    async def signal(self, signal: str, reason: str) -> None: ...

    async def run_command(self, command: list[str], timeout_s: float) -> ExecResult: ...


@dataclass(slots=True)
class _Due:
    """When a changed template is rendered: after some quiet, but not too long after the first
    change."""

    first_ns: int
    at_ns: int


async def keep_rendered(task: TemplatedTask, is_resumed: bool) -> None:
    """Runs while the task runs. `is_resumed`: the agent was away, and anything may have changed."""
    setup = task.setup()
    templates = setup.task.templates or ()
    live = setup.task_templates
    if not templates or not (is_resumed or live.are_live):
        return
    due: dict[int, _Due] = {}
    problems: dict[int, str] = {}
    if is_resumed:
        now_ns = setup.clock.now_ns()
        due = {at: _Due(now_ns, now_ns) for at, each in enumerate(templates) if not each.once}
    while True:
        await _wait(setup, due)
        setup = task.setup()
        now_ns = setup.clock.now_ns()
        for at in live.positions_of(live.subscription.take_changed()):
            template = (setup.task.templates or [])[at]
            if not template.once:
                wait = setup.templates.settings.wait_of(template.wait)
                first_ns = due[at].first_ns if at in due else now_ns
                due[at] = _Due(first_ns, min(now_ns + wait.min_ns, first_ns + wait.max_ns))
        ready = sorted(at for at, each in due.items() if each.at_ns <= now_ns)
        changed: list[Template] = []
        # One by one: what has changed is told of, though another template cannot be written.
        for at in ready:
            del due[at]
            try:
                result = await render_templates(setup, [at], is_start=False)
            except FatalSetupError as error:
                task.kill(_killing(setup, str(error)))
                return
            except SetupError as error:
                if problems.get(at) != str(error):
                    problems[at] = str(error)
                    _log.warning(
                        "cannot render a template again; trying again",
                        alloc=setup.alloc.id,
                        task=setup.task.name,
                        error=str(error),
                    )
                    task.happened(error.event_type, f"{error}; trying again")
                later_ns = setup.clock.now_ns() + round(_RETRY_S * NS_PER_S)
                due[at] = _Due(later_ns, later_ns)
                continue
            problems.pop(at, None)
            changed += [(setup.task.templates or [])[each] for each in result.changed]
        if changed:
            await _tell(task, setup, changed)


async def _wait(setup: TaskSetup, due: dict[int, _Due]) -> None:
    """Until something changes, or a change is due."""
    changed = setup.task_templates.subscription.wait()
    if not due:
        await changed
        return
    first_ns = min(each.at_ns for each in due.values())
    wait_s = max(0.0, (first_ns - setup.clock.now_ns()) / NS_PER_S)
    async with wait_first(changed, setup.clock.sleep(wait_s)):
        pass


def _killing(setup: TaskSetup, why: str) -> TaskEvent:
    now_ns = setup.clock.now_ns()
    return task_state.event(TaskEventType.KILLING, now_ns, why, kill_reason=why, fails_task=True)


async def _tell(task: TemplatedTask, setup: TaskSetup, changed: Sequence[Template]) -> None:
    """Does what the changed templates' modes say: signals, then scripts, then a restart."""
    modes = {each.change_mode for each in changed}
    if modes <= {"noop"}:
        return
    splay_ns = max(each.splay_ns for each in changed if each.change_mode != "noop")
    chance = crc32(f"{setup.alloc.id}/{setup.task.name}/{setup.clock.now_ns()}".encode()) / 2**32
    if splay_ns > 0:
        await setup.clock.sleep(chance * splay_ns / NS_PER_S)
    signals = [each.change_signal or "SIGHUP" for each in changed if each.change_mode == "signal"]
    for signal in dict.fromkeys(name.upper() for name in signals):
        try:
            await task.signal(signal, _RERENDERED)
        except OrchgitError as error:
            task.kill(_killing(setup, f"Template failed to send signals: {signal}: {error}"))
            return
    for template in changed:
        script = template.change_script
        if template.change_mode == "script" and script is not None:
            is_well = await _run(task, script)
            if not is_well and script.fail_on_error:
                task.kill(_killing(setup, "Template script failed, task is being killed"))
                return
    if "restart" in modes:
        type_, now_ns = TaskEventType.RESTART_REQUESTED, setup.clock.now_ns()
        task.restart(task_state.event(type_, now_ns, _RESTARTED, restart_reason=_RESTARTED))


async def _run(task: TemplatedTask, script: ChangeScript) -> bool:
    """Runs the script in the task. Returns whether it ended well; an event says how it did."""
    arguments = script.args or []
    shown = f"[{' '.join(arguments)}]"
    try:
        result = await task.run_command([script.command, *arguments], script.timeout_ns / NS_PER_S)
    except (OrchgitError, OSError) as error:
        task.happened(
            TaskEventType.HOOK_FAILED,
            f"Template failed to run script {script.command} with arguments {shown} on change: "
            f"{error}. Exit code: 0",
        )
        return False
    if result.exit_code != 0:
        task.happened(
            TaskEventType.HOOK_FAILED,
            f"Template ran script {script.command} with arguments {shown} on change but it exited "
            f"with code: {result.exit_code}",
        )
        return False
    task.happened(
        TaskEventType.HOOK_MESSAGE,
        f"Template successfully ran script {script.command} with arguments: {shown}. Exit code: 0",
    )
    return True
