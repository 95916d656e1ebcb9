"""Templates are rendered by processes that may be as slow, large and broken as they like."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

import psutil
import pytest

from agent.templates.renderer import Rendered, RenderLimits, RenderRequest, TemplateRenderer
from orchgit.errors import InvalidInputError
from tests.support.polling import until

Work = Callable[[TemplateRenderer], Awaitable[None]]


def request(text: str, envvars: bool = False) -> RenderRequest:
    return RenderRequest("local/app.conf", text, {"NAME": "shop"}, 0, read_file, envvars=envvars)


def read_file(path: str) -> str:
    if path != "local/x":
        raise InvalidInputError(f'cannot read "{path}"')
    return "file text"


def run(work: Work, limits: RenderLimits | None = None) -> None:
    async def whole() -> None:
        renderer = TemplateRenderer(limits)
        try:
            await work(renderer)
        finally:
            await renderer.close()

    asyncio.run(whole())


def test_text_files_and_variables_come_back_from_the_process() -> None:
    async def work(renderer: TemplateRenderer) -> None:
        text = 'A={{ env "NAME" }}\nB="{{ file "local/x" }}"\n'
        assert await renderer.render(request(text, envvars=True)) == Rendered(
            b'A=shop\nB="file text"\n', {"A": "shop", "B": "file text"}
        )
        with pytest.raises(InvalidInputError, match='error calling file: cannot read "local/y"'):
            await renderer.render(request('{{ file "local/y" }}'))
        (first,) = renderer.process_ids()
        await renderer.render(request("{{ 1 }}"))
        assert renderer.process_ids() == [first]  # an error of a template is no reason for another

    run(work)


@pytest.mark.parametrize(
    ("text", "limits", "why"),
    [
        pytest.param(
            "{{ range loop 9000 }}{{ range loop 9000 }}{{ end }}{{ end }}",
            RenderLimits(steps=10_000),
            "takes more than 10000 steps",
            id="steps",
        ),
        pytest.param(
            "{{ range loop 90000 }}{{ range loop 90000 }}{{ end }}{{ end }}",
            RenderLimits(steps=10**15, processor_s=0.5),
            "takes longer than 0.5 s of processor time",
            id="processor-time",
        ),
        pytest.param(
            "{{ range loop 1000 }}1234567890{{ end }}",
            RenderLimits(output_bytes=5_000),
            "over 5000 bytes",
            id="output",
        ),
        pytest.param(
            "".join(f"{{{{ $a{i} := sprig_until 1000000 }}}}" for i in range(20)),
            RenderLimits(memory_bytes=100 << 20),
            "more than 100 MiB of memory",
            id="memory",
        ),
        pytest.param(
            "{{ 1 }}" * 20,
            RenderLimits(source_bytes=100),
            "over 100 bytes",
            id="source",
        ),
    ],
)
def test_template_past_a_limit_fails_by_name_and_the_next_is_rendered(
    text: str, limits: RenderLimits, why: str
) -> None:
    async def work(renderer: TemplateRenderer) -> None:
        with pytest.raises(InvalidInputError) as caught:
            await renderer.render(request(text))
        assert 'cannot render the template "local/app.conf"' in str(caught.value)
        assert why in str(caught.value)
        assert (await renderer.render(request("{{ 1 }}"))).text == b"1"

    run(work, limits)


def test_process_that_works_no_longer_is_ended_after_a_while() -> None:
    async def work(renderer: TemplateRenderer) -> None:
        with pytest.raises(InvalidInputError, match=r"takes longer than 0\.5 s, the limit"):
            await renderer.render(request("{{ range loop 90000 }}" * 2 + "{{ end }}" * 2))

    run(work, RenderLimits(steps=10**15, stall_timeout_s=0.5))


def test_template_is_rendered_after_its_process_stood_still_for_longer_than_the_limit() -> None:
    async def work(renderer: TemplateRenderer) -> None:
        await renderer.render(request("{{ 1 }}"))
        (pid,) = renderer.process_ids()
        os.kill(pid, signal.SIGSTOP)
        rendering = asyncio.create_task(renderer.render(request("{{ 2 }}")))
        loop = asyncio.get_running_loop()
        loop.call_later(3 * renderer.limits.processor_s, os.kill, pid, signal.SIGCONT)
        assert (await rendering).text == b"2"
        assert renderer.process_ids() == [pid]

    run(work, RenderLimits(processor_s=0.2))


def test_ended_process_fails_its_template_only() -> None:
    async def work(renderer: TemplateRenderer) -> None:
        await renderer.render(request("{{ 1 }}"))
        (pid,) = renderer.process_ids()
        endless = "{{ range loop 90000 }}{{ range loop 90000 }}{{ end }}{{ end }}"
        rendering = asyncio.create_task(renderer.render(request(endless)))
        while renderer.process_ids():
            await asyncio.sleep(0)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(InvalidInputError, match="ended with code -9"):
            await rendering
        assert (await renderer.render(request("{{ 2 }}"))).text == b"2"

    run(work, RenderLimits(steps=10**15))


def test_canceled_rendering_ends_its_process() -> None:
    async def work(renderer: TemplateRenderer) -> None:
        await renderer.render(request("{{ 1 }}"))
        (pid,) = renderer.process_ids()
        endless = "{{ range loop 90000 }}{{ range loop 90000 }}{{ end }}{{ end }}"
        rendering = asyncio.create_task(renderer.render(request(endless)))
        while renderer.process_ids():
            await asyncio.sleep(0)
        rendering.cancel()
        await asyncio.gather(rendering, return_exceptions=True)
        await until(lambda: not psutil.pid_exists(pid))

    run(work, RenderLimits(steps=10**15))


def test_process_ends_when_no_template_comes() -> None:
    async def work(renderer: TemplateRenderer) -> None:
        pids: list[int] = []
        while not pids:  # on a busy machine it may have ended before it is looked for
            await renderer.render(request("{{ 1 }}"))
            pids = renderer.process_ids()
        await until(lambda: not psutil.pid_exists(pids[0]))
        assert renderer.process_ids() == []

    run(work, RenderLimits(idle_s=0.05))
