"""Servers that end-to-end tests share; a test that crashes one starts its own."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.dev_server import ApiUser, DevServer, dev_server, git


@pytest.fixture(scope="session")
def shared_dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """One server without the demo jobs; each test uses a source of its own on it."""
    with dev_server(tmp_path_factory.mktemp("dev") / "data", "-no-demo") as server:
        yield server


class Repository:
    """A clone of a source's built-in repository, and what a person does in it."""

    def __init__(self, server: ApiUser, name: str, parent: Path) -> None:
        self.server = server
        self.name = name
        self.path = parent / name
        assert server.cli("source", "add", name).code == 0
        git(parent, "clone", f"{server.address}/git/{name}.git", str(self.path))
        git(self.path, "checkout", "-B", "main")

    def write(self, path: str, text: str) -> None:
        target = self.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def commit(self, subject: str) -> str:
        git(self.path, "add", "-A")
        git(self.path, "commit", "-m", subject)
        return git(self.path, "rev-parse", "HEAD").out.strip()

    def push(self, *options: str) -> str:
        """Push what is committed; returns what the person sees."""
        return git(self.path, "push", *options, "origin", "main").text

    def refused_push(self, *options: str) -> str:
        done = git(self.path, "push", *options, "origin", "main", check=False)
        assert done.code != 0, done.text
        return done.text


@pytest.fixture
def repository(shared_dev: DevServer, tmp_path: Path, request: pytest.FixtureRequest) -> Repository:
    """A fresh source on the shared server, named after the test."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
    digest = hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:6]
    return Repository(shared_dev, f"{words[:32].strip('-')}-{digest}", tmp_path)
