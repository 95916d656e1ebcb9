"""The job's templates, rendered before each start; a task waits for what they read.

A template with `env` gives the task variables. While the task runs, `agent/templates/changes.py`
renders them again.
"""

from __future__ import annotations

from agent.hooks.base import TaskSetup
from agent.hooks.rendering import render_templates
from agent.tasks import task_state
from agent.tasks.task_state import TaskEventType
from orchgit.wait_first import wait_first

_SHOWN = 3
"""Things that an event names, of those that a task waits for."""
_SILENCE_S = 3.0
"""How long the servers may be silent before an event says what a task waits for."""


async def prepare(setup: TaskSetup) -> None:
    setup.template_env = {}
    templates = setup.task.templates
    if not templates:
        return
    live = setup.task_templates
    positions = tuple(range(len(templates)))
    told = ""
    while positions:
        live.subscription.take_changed()
        result = await render_templates(setup, positions, is_start=True)
        setup.template_env = live.variables()  # with those of templates that stay as they are
        positions = result.waiting
        if not positions:
            return
        if not result.is_unknown or live.subscription.problems():
            told = _tell(setup, result.missing, told)
        silence = setup.clock.sleep(_SILENCE_S)
        async with wait_first(live.subscription.wait(), silence) as (news, _):
            is_silent = not news.done()
        if is_silent:
            told = _tell(setup, result.missing, told)
            await live.subscription.wait()


def _tell(setup: TaskSetup, missing: tuple[str, ...], told: str) -> str:
    """Adds an event about what the task waits for, unless the last one said the same."""
    shown = list(missing[:_SHOWN])
    if len(missing) > _SHOWN:
        shown.append(f"and {len(missing) - _SHOWN} more")
    text = f"Missing: {', '.join(shown)}"
    if problems := setup.task_templates.subscription.problems():
        text = f"{text} ({'; '.join(problems[:_SHOWN])})"
    if missing and text != told:
        now_ns = setup.clock.now_ns()
        setup.emit(task_state.event(TaskEventType.TEMPLATE, now_ns, text))
    return text
