"""An agent in a process of its own, to be killed. Arguments: its directory, servers (a,b,c)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agent.agent import Agent, AgentConfig
from orchgit import logs


async def main(data_dir: str, server: str) -> None:
    config = AgentConfig(
        data_dir=Path(data_dir),
        servers=tuple(server.split(",")),
        drivers={"raw_exec": {"enabled": True}, "mock_driver": {"enabled": True}},
    )
    agent = Agent(config)
    await agent.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    logs.configure(logs.LogSettings("WARNING"))
    asyncio.run(main(sys.argv[1], sys.argv[2]))
