"""Templates of a running task: rendered again after a change, and what the task is told."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.drivers.base import ExecResult
from agent.hooks import templates
from agent.hooks.base import TaskSetup
from agent.loops import spawn
from agent.tasks.task_state import TaskEventType
from agent.templates.changes import keep_rendered
from agent.templates.cluster_reads import ClusterReads, ReadSettings
from agent.templates.renderer import RenderLimits, RenderRequest, TemplateRenderer
from agent.templates.settings import NodeTemplates, TemplateSettings, WaitTimes
from agent.templates.task_templates import TaskTemplates
from orchgit.clock import FakeClock
from orchgit.errors import DriverError
from orchgit.model.allocation import TaskEvent
from orchgit.model.base import NS_PER_S
from orchgit.model.task import ChangeScript, Template
from tests.support.polling import until
from tests.support.small_disk import small_disk
from tests.unit.agent.test_cluster_reads import WEB, Servers
from tests.unit.agent.test_hooks import new_setup

VALUE = '{{ with nomadVar "app" }}{{ .v }}{{ end }}'


class VariableServers(Servers):
    """The values are variables with the item `v`."""

    def put(self, name: str, value: Any) -> None:
        items = {"v": value}
        super().put(name, {"Items": items, "Path": name, "Namespace": "default"})  # type: ignore[arg-type]

    def delete(self, name: str) -> None:
        del self.values[name]
        self._changed.set()


class Rig:
    """A running task; `told` is what was done with it."""

    def __init__(self, path: Path, *given: Template) -> None:
        self.servers, self.clock = VariableServers(), FakeClock()
        self.reads = ClusterReads(self.servers.read, self.clock, ReadSettings())
        self.renderer = TemplateRenderer(RenderLimits(processor_s=60.0))
        self._setup = new_setup(path, templates=list(given))
        self._setup.clock = self.clock
        self._setup.templates = NodeTemplates(self.renderer, self.reads, TemplateSettings())
        self.restarted_agent()
        self.told: list[str] = []
        self.exit_code = 0
        self.local = self._setup.paths.local

    def restarted_agent(self) -> None:
        """Forget what was rendered, as another agent would."""
        self._setup.task_templates = TaskTemplates(self.reads, WEB)

    def setup(self) -> TaskSetup:
        return self._setup

    def restart(self, because: TaskEvent) -> None:
        self.told.append(f"restart: {because.display_message}")

    def kill(self, because: TaskEvent) -> None:
        self.told.append(f"kill: {because.display_message}")

    def happened(self, kind: TaskEventType, message: str) -> None:
        self.told.append(f"{kind.value}: {message}")

    async def signal(self, signal: str, reason: str) -> None:
        if signal == "SIGNOPE":
            raise DriverError("no such signal")
        self.told.append(signal)

    async def run_command(self, command: list[str], timeout_s: float) -> ExecResult:
        self.told.append(" ".join(command))
        return ExecResult(b"", self.exit_code)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Lets time pass until the condition is true."""

        async def passed() -> bool:
            await self.clock.advance(0.1)
            return condition()

        await until(passed)

    async def until_text(self, name: str, text: str) -> None:
        await self.until(lambda: (self.local / name).read_text() == text)

    async def start(self) -> None:
        """Render as before a start."""
        preparing = asyncio.ensure_future(templates.prepare(self._setup))
        await self.until(preparing.done)
        await preparing


def run(rig: Rig, work: Callable[[Rig], Awaitable[None]], is_resumed: bool = False) -> None:
    async def whole() -> None:
        try:
            if not is_resumed:
                await rig.start()
            keeping = spawn(keep_rendered(rig, is_resumed), "keeping")
            await work(rig)
            keeping.cancel()
        finally:
            await rig.reads.close()
            await rig.renderer.close()

    asyncio.run(whole())


def live(mode: str, name: str = "a", **fields: Any) -> Template:
    wait = {"Min": 1 * NS_PER_S, "Max": 4 * NS_PER_S}
    fixed = {"embedded_tmpl": VALUE, "splay_ns": 0, "wait": wait}
    return Template(dest_path=f"local/{name}", change_mode=mode, **{**fixed, **fields})


def test_changes_close_together_are_rendered_once_after_the_quiet(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        for value in ("2", "3", "4"):
            rig.servers.put("app", value)
            for _ in range(7):
                await rig.clock.advance(0.1)
                await rig.renderer.render(RenderRequest("x", "{{ 1 }}", {}, 0, str))
        assert rig.told == []
        await rig.until_text("a", "4")
        await rig.until(lambda: rig.told == ["SIGUSR1"])

    rig = Rig(tmp_path, live("signal", change_signal="sigusr1"))
    rig.servers.put("app", "1")
    run(rig, work)


def test_changes_without_a_quiet_are_rendered_after_the_longest_wait(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        for number in range(9):
            assert number > 7 or rig.told == []
            rig.servers.put("app", str(number))
            await rig.clock.advance(0.5)
        await until(lambda: rig.told == ["SIGHUP"])

    rig = Rig(tmp_path, live("signal"))
    rig.servers.put("app", "first")
    run(rig, work)


def test_task_is_told_by_signals_then_scripts_then_a_restart(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        rig.servers.put("app", "2")
        await rig.until(lambda: len(rig.told) == 4)
        assert rig.told == [
            "SIGHUP",
            "/bin/reload now",
            "Task hook message: Template successfully ran script /bin/reload with arguments: "
            "[now]. Exit code: 0",
            "restart: Template with change_mode restart re-rendered",
        ]

    script = ChangeScript(command="/bin/reload", args=["now"])
    modes = (live("restart", "a"), live("script", "b", change_script=script), live("signal", "c"))
    rig = Rig(tmp_path, *modes, live("noop", "d"))
    rig.servers.put("app", "1")
    run(rig, work)


@pytest.mark.parametrize(
    ("template", "value", "said"),
    [
        pytest.param(
            live("script", change_script=ChangeScript(command="/x", fail_on_error=True)),
            "2",
            "kill: Template script failed, task is being killed",
            id="failing-script",
        ),
        pytest.param(
            live("signal", change_signal="SIGNOPE"),
            "2",
            "kill: Template failed to send signals: SIGNOPE: no such signal",
            id="signal-that-cannot-be-sent",
        ),
        pytest.param(
            live("noop", embedded_tmpl='{{ with nomadVar "app" }}{{ parseInt .v }}{{ end }}'),
            "many",
            'kill: Template failed: (dynamic): execute: template: :1:28: executing "" at '
            "<parseInt .v>: error calling parseInt: parseInt: strconv.ParseInt: parsing "
            '"[redacted]": invalid syntax',
            id="value-that-the-template-fails-on",
        ),
    ],
)
def test_failure_after_a_change_kills_the_task(
    tmp_path: Path, template: Template, value: str, said: str
) -> None:
    async def work(rig: Rig) -> None:
        rig.servers.put("app", value)
        await rig.until(lambda: rig.told[-1:] == [said])

    rig = Rig(tmp_path, template)
    rig.exit_code = 3
    rig.servers.put("app", "1")
    run(rig, work)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_full_disk_keeps_the_file_and_the_task_and_holds_up_no_other_template(
    tmp_path: Path,
) -> None:
    async def work(rig: Rig) -> None:
        disk.fill()
        rig.servers.put("app", "2")
        await rig.until(lambda: len(rig.told) == 2)
        assert rig.told[0].startswith("Task hook failed: Template failed: error rendering")
        assert rig.told[0].endswith("have the task write less there; trying again")
        assert rig.told[1] == "SIGUSR1"
        assert (rig.local / "../secrets/b").read_text().strip() == "1"
        await rig.clock.advance(100)
        disk.free()
        await rig.until(lambda: rig.told[2:] == ["SIGUSR2"])
        assert (rig.local / "../secrets/b").read_text().strip() == "2"

    large = live("signal", change_signal="SIGUSR2", embedded_tmpl=VALUE + " " * 100_000)
    large = msgspec.structs.replace(large, dest_path="secrets/b")
    rig = Rig(tmp_path, large, live("signal", change_signal="SIGUSR1"))
    rig.servers.put("app", "1")
    with small_disk(rig.local / "../secrets", 1) as disk:
        run(rig, work)


def test_deleted_variable_and_once_leave_the_file_as_it_is(tmp_path: Path) -> None:
    async def work(rig: Rig) -> None:
        rig.servers.put("app", "2")
        await rig.until_text("a", "2")
        assert (rig.local / "b").read_text() == "1"
        rig.servers.delete("app")
        await rig.clock.advance(30)
        assert (rig.local / "a").read_text() == "2"
        rig.setup().is_again = True
        await rig.start()  # a restart of the task waits for nothing that it has
        assert rig.told == []

    rig = Rig(tmp_path, live("noop"), live("restart", "b", once=True))
    rig.servers.put("app", "1")
    run(rig, work)


def test_agent_that_returns_tells_the_task_what_changed_meanwhile(tmp_path: Path) -> None:
    async def before(rig: Rig) -> None:
        await rig.until_text("a", "1")

    async def after(rig: Rig) -> None:
        await rig.until(lambda: rig.told == ["SIGHUP"])
        assert (rig.local / "a").read_text() == "2"

    rig = Rig(tmp_path, live("signal"), live("restart", "b", embedded_tmpl="{{ 1 }}"))
    rig.servers.put("app", "1")
    run(rig, before)
    again = Rig(tmp_path, *(rig.setup().task.templates or ()))
    again.setup().is_again = True
    again.servers.put("app", "2")
    run(again, after, is_resumed=True)


def test_wait_of_a_template_stays_within_the_nodes_bounds() -> None:
    bounds = WaitTimes(2 * NS_PER_S, 10 * NS_PER_S)
    settings = TemplateSettings(wait_bounds=bounds)
    assert settings.wait_of(None) == TemplateSettings().wait
    assert settings.wait_of({"Min": 0, "Max": 0}) == WaitTimes(2 * NS_PER_S, 2 * NS_PER_S)
    assert settings.wait_of({"Min": 5 * NS_PER_S}) == WaitTimes(5 * NS_PER_S, 10 * NS_PER_S)
    assert TemplateSettings().wait_of({"Min": 5}) == WaitTimes(5, 20)
