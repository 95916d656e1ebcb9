"""What is meant to stop a server is refused or done, and nobody else waits for it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.conftest import Repository
from tests.support.dev_server import DevServer, dev_server, git
from tests.support.hostile.bounds import unnoticed
from tests.support.hostile.requests import REQUESTS
from tests.support.hostile.templates import TEMPLATES
from tests.support.hostile.trees import MESSAGES, TREES
from tests.support.job_texts import sleeper


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DevServer, Path]]:
    """A server of this module's own, with its data directory."""
    data_dir = tmp_path_factory.mktemp("hostile") / "data"
    with dev_server(data_dir, "-no-demo") as server:
        yield server, data_dir


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_hostile_request_is_answered_without_delaying_others(
    attacked: tuple[DevServer, Path], name: str
) -> None:
    server, data_dir = attacked
    request = REQUESTS[name]
    with httpx.Client(base_url=server.address, trust_env=False, timeout=60) as client:

        def send() -> httpx.Response:
            return client.request(request.method, request.path, content=request.body)

        answer = unnoticed(server.address, server.pid, data_dir, send)
        assert answer.status_code in request.statuses, answer.text[:500]
        # On a busy machine the limit of time may be there before that of work.
        assert request.words in answer.text or "parse_timeout_s" in answer.text, answer.text[:500]
        client.delete("/v1/job/hostile?purge=true")


@pytest.mark.parametrize("name", sorted(TREES))
def test_hostile_push_is_refused_without_delaying_others(
    attacked: tuple[DevServer, Path], tmp_path: Path, name: str
) -> None:
    server, data_dir = attacked
    files, words = TREES[name]
    repository = Repository(server, f"t-{name[:40].strip('-')}", tmp_path)
    for path, content in files.items():
        target = repository.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    git(repository.path, "add", "-A")
    message = tmp_path / "message"
    message.write_text(MESSAGES.get(name, "Hostile"))
    git(repository.path, "commit", "-F", str(message))
    push = repository.refused_push if words else lambda: repository.push("-o", "detach")
    seen = unnoticed(server.address, server.pid, data_dir, push)
    assert words in seen, seen[-2000:]
    git(repository.path, "rm", "-rqf", ".")
    repository.write("good.nomad.hcl", sleeper(f"good-{name}"))
    repository.commit("Put right")
    assert "rollout" in repository.push("-o", "detach").lower()
    server.cli("job", "stop", "-purge", f"good-{name}")


def templated(job_id: str, templates: dict[str, str]) -> dict[str, Any]:
    """A batch job with one group for each template."""
    return {
        "ID": job_id,
        "Name": job_id,
        "Type": "batch",
        "Datacenters": ["*"],
        "TaskGroups": [
            {
                "Name": name,
                "Count": 1,
                "RestartPolicy": {"Attempts": 0, "Mode": "fail"},
                "ReschedulePolicy": {"Attempts": 0, "Unlimited": False},
                "Tasks": [
                    {
                        "Name": "t",
                        "Driver": "raw_exec",
                        "Config": {"command": "/bin/true"},
                        "Resources": {"CPU": 10, "MemoryMB": 10},
                        "Templates": [{"EmbeddedTmpl": text, "DestPath": "local/file"}],
                    }
                ],
            }
            for name, text in templates.items()
        ],
    }


def ended_allocations(server: DevServer, job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Registers the job, and returns its allocations by group when all have ended."""
    answer = httpx.put(f"{server.address}/v1/jobs", json={"Job": job}, trust_env=False)
    assert answer.status_code == 200, answer.text
    found = server.wait_for(
        f"/v1/job/{job['ID']}/allocations",
        lambda allocs: (
            len(allocs) == len(job["TaskGroups"])
            and all(each["ClientStatus"] in ("complete", "failed") for each in allocs)
        ),
        timeout_s=100,
    )
    return {each["TaskGroup"]: each for each in found}


def test_hostile_templates_fail_their_tasks_by_name_and_others_run(
    attacked: tuple[DevServer, Path],
) -> None:
    server, data_dir = attacked
    rounds = itertools.count()

    def run() -> dict[str, dict[str, Any]]:
        texts = {name: text for name, (text, _) in TEMPLATES.items()}
        return ended_allocations(server, templated(f"templates-{next(rounds)}", texts))

    ended = unnoticed(server.address, server.pid, data_dir, run)
    for name, (_, words) in TEMPLATES.items():
        events = ended[name]["TaskStates"]["t"]["Events"]
        said = " ".join(event["DisplayMessage"] for event in events)
        assert ended[name]["ClientStatus"] == ("failed" if words else "complete"), (name, said)
        assert words in said, (name, said)
        assert not words or "Template failed: " in said
    good = ended_allocations(server, templated("good", {"g": '{{ env "NOMAD_TASK_NAME" }}'}))
    assert good["g"]["ClientStatus"] == "complete"


def test_agent_starts_again_while_a_hostile_template_is_rendered(tmp_path: Path) -> None:
    endless = TEMPLATES["loop-of-nothing"][0]
    with dev_server(tmp_path / "data", "-no-demo") as server:
        job = templated("endless", {"g": endless})
        job["TaskGroups"][0]["RestartPolicy"] = {
            "Attempts": 1000,
            "Interval": 10**12,
            "Delay": 10**9,
            "Mode": "delay",
        }
        httpx.put(f"{server.address}/v1/jobs", json={"Job": job}, trust_env=False)
        server.wait_for("/v1/job/endless/allocations", lambda allocs: len(allocs) == 1)
        server.kill9()
        server.start()
        good = ended_allocations(server, templated("good", {"g": '{{ env "NOMAD_TASK_NAME" }}'}))
        assert good["g"]["ClientStatus"] == "complete"
