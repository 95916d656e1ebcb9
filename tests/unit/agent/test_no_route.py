"""An agent that is asked what only servers answer names the way out."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.applications import Starlette

from agent.serve.replies import ERROR_HANDLERS


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/jobs", "cannot answer /v1/jobs here: this agent runs no server"),
        ("/v1/client/x", "Not Found"),
    ],
)
def test_path_that_only_servers_answer_is_told(path: str, said: str) -> None:
    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(Starlette(exception_handlers=ERROR_HANDLERS))
        async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
            return await client.get(path)

    answer = asyncio.run(asked())
    assert answer.status_code == 404
    assert answer.text.startswith(said)
