"""Real git work trees and repositories in temporary directories, driven by the real git."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_ENVIRONMENT = {
    "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


@dataclass(frozen=True)
class GitAnswer:
    returncode: int
    output: str
    """stdout and stderr together, as a person sees them."""


class WorkTree:
    """A clone to edit, commit and push from. Plain methods block: fine without a running server."""

    def __init__(self, path: Path, branch: str = "main") -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        if not (path / ".git").exists():
            self.git("init", "--quiet", f"--initial-branch={branch}")

    def git(self, *args: str) -> str:
        done = subprocess.run(
            ["git", *args], cwd=self.path, env=self.environment, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    @property
    def environment(self) -> dict[str, str]:
        """What git runs with, whoever starts it."""
        return {**_ENVIRONMENT, "HOME": str(self.path)}

    async def run(self, *args: str) -> GitAnswer:
        """git beside a server that runs in this process."""
        process = await asyncio.create_subprocess_exec(
            "git",
            *args,
            cwd=self.path,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        assert process.returncode is not None
        return GitAnswer(process.returncode, output.decode())

    def write(self, files: dict[str, str | bytes | None]) -> None:
        """Put files; None removes one."""
        for name, content in files.items():
            target = self.path / name
            if content is None:
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            data = content.encode() if isinstance(content, str) else content
            target.write_bytes(data)

    def commit(self, files: dict[str, str | bytes | None], message: str = "change") -> str:
        """Write, add and commit; the new commit's id."""
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    async def push(self, url: str, *options: str, ref: str = "HEAD:refs/heads/main") -> GitAnswer:
        flags = [flag for option in options for flag in ("-o", option)]
        return await self.run("push", *flags, url, ref)


def batch_job(name: str, count: int = 0, text: str = "hello", extra: str = "") -> str:
    """A job file; count 0 asks for no allocation, so that no agent is needed to be healthy."""
    return f"""job "{name}" {{
  type = "batch"
  group "main" {{
    count = {count}
    task "say" {{
      driver = "raw_exec"
      config {{
        command = "/bin/echo"
        args    = ["{text}"]
      }}
    }}
  }}
{extra}}}
"""
