"""What a server loads to start: each megabyte and millisecond is every installation's."""

from __future__ import annotations

import subprocess
import sys


def test_server_and_an_agent_start_without_the_libraries_of_others() -> None:
    """numpy is the scheduler processes', the docker SDK is for nodes with an engine."""
    program = (
        "import sys, orchgit.server.server, agent.agent, orchgit.cli.agent_process.running\n"
        "print([m for m in ('numpy', 'docker', 'requests', 'hypothesis') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
