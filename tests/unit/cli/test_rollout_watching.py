"""Which rollouts `rollout watch` follows, and how it lives with servers that do not answer."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest

from orchgit.cli.client.http_client import ApiError
from orchgit.cli.rollout_watching import HEALTHY, NOT_HEALTHY, RolloutWatch

COMMIT = "57bd1d16" * 5


def rollout(rollout_id: str, source: str = "demo", **fields: Any) -> dict[str, Any]:
    known = {"Status": "healthy", "StatusDescription": "every job is healthy", "AppliedTime": 1}
    commit = {"ID": COMMIT, "Author": "Ada", "Subject": "One"}
    return {"ID": rollout_id, "Source": source, "Commit": commit, "Jobs": [], **known, **fields}


@dataclass
class Server:
    """Answers as the API does; `failures` are raised by the next blocking reads of a rollout."""

    rollouts: list[dict[str, Any]]
    sources: list[dict[str, Any]] = field(default_factory=list)
    failures: list[ApiError] = field(default_factory=list)
    now_s: float = 0.0

    def get(self, path: str, **query: Any) -> Any:
        if path == "/v1/gitops/sources":
            return self.sources
        if path.endswith("/report"):
            return {"Failures": [], "Services": []}
        if path == "/v1/gitops/rollouts":
            return self._listed(**query)
        return self._one(path)

    def blocking_get(self, path: str, index: int, **query: Any) -> tuple[int, Any]:
        if self.failures and path != "/v1/gitops/rollouts":
            raise self.failures.pop(0)
        self.now_s += float(query["wait"].removesuffix("s"))
        if path == "/v1/gitops/rollouts":
            return index + 1, self._listed(**query)
        return index + 1, self._one(path)

    def _listed(self, source: str | None = None, commit: str = "", **_: Any) -> Any:
        return [
            each
            for each in self.rollouts
            if source in (None, each["Source"]) and each["Commit"]["ID"].startswith(commit)
        ]

    def _one(self, path: str) -> Any:
        wanted = path.rsplit("/", 1)[1]
        found = [each for each in self.rollouts if each["ID"].startswith(wanted)]
        if not found:
            raise ApiError("cannot find it", 404)
        return found[0]

    def watch(self, **fields: Any) -> RolloutWatch:
        return RolloutWatch(self, clock_s=lambda: self.now_s, sleep=self.wait, **fields)  # type: ignore[arg-type]

    def wait(self, seconds: float) -> None:
        self.now_s += seconds


def test_commit_of_several_sources_is_healthy_only_if_each_newest_rollout_is() -> None:
    server = Server(
        [
            rollout("aaaa-2", "one"),
            rollout("aaaa-1", "one", Status="failed"),
            rollout("bbbb-1", "two", Status="failed"),
        ]
    )
    assert server.watch().find(COMMIT[:7]) == ["aaaa-2", "bbbb-1"]
    assert server.watch().run(COMMIT) == NOT_HEALTHY
    assert server.watch(source="one").run(COMMIT) == HEALTHY


def test_rollout_source_and_no_name_are_found() -> None:
    server = Server([rollout("abcd-1"), rollout("ef01-2", "other")], [{"Name": "other"}])
    assert server.watch().find("abcd") == ["abcd-1"]
    assert server.watch().find("other") == ["ef01-2"]
    assert server.watch().find(None) == ["abcd-1", "ef01-2"]
    with pytest.raises(ApiError, match="cannot find a source, commit or rollout 'nothing'"):
        server.watch().find("nothing")


def test_commit_that_does_not_appear_names_what_keeps_the_sources() -> None:
    sources = [
        {"Name": "quiet", "Paused": True, "Status": {"LastError": ""}},
        {"Name": "broken", "Paused": False, "Status": {"LastError": "cannot reach its remote"}},
    ]
    server = Server([], sources)
    with pytest.raises(ApiError) as caught:
        server.watch().run("c0ffee")
    assert 60 <= server.now_s < 70
    assert str(caught.value) == (
        "cannot find a rollout of commit c0ffee: source quiet is paused; "
        "source broken: cannot reach its remote"
    )


def test_servers_that_do_not_answer_are_asked_again_for_a_minute() -> None:
    server = Server([rollout("abcd-1")], failures=[ApiError("no leader", 503), ApiError("gone")])
    assert server.watch().follow("abcd-1") == HEALTHY
    server.failures = [ApiError("gone") for _ in range(200)]
    started_s = server.now_s
    with pytest.raises(ApiError, match="cannot follow the rollout further: gone"):
        server.watch().follow("abcd-1")
    assert 60 <= server.now_s - started_s < 65
    server.failures = [ApiError("forbidden", 403)]
    with pytest.raises(ApiError, match="forbidden"):
        server.watch().follow("abcd-1")


def test_rollout_that_does_not_end_in_time_is_told_with_its_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    going = rollout("abcd-1", Status="progressing", StatusDescription="0 of 1 jobs done")
    server = Server([going])
    with pytest.raises(ApiError, match=r"rollout abcd-1 is progressing \(0 of 1 jobs done\)"):
        server.watch(timeout_s=150.0).run("abcd")
    assert 150 <= server.now_s < 160
    assert capsys.readouterr().out.splitlines()[:2] == [
        "Rollout abcd-1 of source demo",
        "Commit 57bd1d16 by Ada: One",
    ]


def test_watching_loads_none_of_the_server_s_libraries() -> None:
    code = (
        "import sys, orchgit.cli.rollout_watching\n"
        "print({'pygit2', 'numpy', 'structlog', 'sqlite3', 'starlette'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
