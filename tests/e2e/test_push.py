"""`git push` deploys: plan and rollout in the push's output, refusals, push options."""

from __future__ import annotations

import httpx

from tests.e2e.conftest import Repository
from tests.support.job_texts import sleeper, web


def port_of(alloc: dict[str, object], repository: Repository) -> int:
    data = repository.server.get(f"/v1/allocation/{alloc['ID']}")
    return int(data["AllocatedResources"]["Shared"]["Ports"][0]["Value"])


def page(port: int) -> str:
    return httpx.get(f"http://127.0.0.1:{port}/index.html", trust_env=False).text.strip()


def test_push_runs_the_job_and_an_edit_is_served_on_its_port(repository: Repository) -> None:
    repository.write("site.nomad.hcl", web(repository.name, "first"))
    repository.commit("Begin")
    seen = repository.push()
    assert f"+ {repository.name}: place 1" in seen
    assert "Healthy after" in seen

    [alloc] = repository.server.running_allocations(repository.name)
    assert page(port_of(alloc, repository)) == "first"

    repository.write("site.nomad.hcl", web(repository.name, "second"))
    repository.commit("Change the page")
    seen = repository.push()
    assert f"~ {repository.name}: update 1" in seen
    assert "Healthy after" in seen
    [alloc] = repository.server.running_allocations(repository.name)
    assert page(port_of(alloc, repository)) == "second"


def test_detached_push_returns_before_the_rollout_ends(repository: Repository) -> None:
    slow = sleeper(repository.name).replace(
        'min_healthy_time  = "100ms"', 'min_healthy_time = "2s"'
    )
    repository.write("slow.nomad.hcl", slow)
    commit = repository.commit("Slow to be healthy")
    seen = repository.push("-o", "detach")
    assert "Healthy after" not in seen
    rollout = repository.server.get(f"/v1/gitops/rollout/{commit}")
    assert rollout["FinishedTime"] == 0, "the push returned before the rollout ended"
    done = repository.server.wait_for(
        f"/v1/gitops/rollout/{commit}", lambda found: found["FinishedTime"] > 0
    )
    assert done["Status"] == "healthy"


def test_dry_run_push_shows_the_plan_and_moves_nothing(repository: Repository) -> None:
    repository.write("one.nomad.hcl", sleeper(repository.name))
    repository.commit("Never applied")
    seen = repository.refused_push("-o", "dry-run")
    assert f"+ {repository.name}: place 1" in seen
    source = repository.server.get(f"/v1/gitops/source/{repository.name}")
    assert source["Status"]["AppliedCommit"] == ""
    assert repository.server.cli("job", "status", repository.name).code == 1


def test_broken_file_is_refused_with_every_problem_and_changes_nothing(
    repository: Repository,
) -> None:
    repository.write("good.nomad.hcl", sleeper(repository.name))
    good = repository.commit("Good")
    repository.push()
    [before] = repository.server.running_allocations(repository.name)

    repository.write("good.nomad.hcl", sleeper(repository.name, version="2"))
    repository.write("bad/one.nomad.hcl", 'job "one" {\n  group "g" {\n    cuont = 1\n  }\n}\n')
    repository.write("bad/two.nomad.hcl", 'job "two" {\n  tpye = "batch"\n}\n')
    repository.commit("Bad")
    seen = repository.refused_push()
    assert "bad/one.nomad.hcl:3:5: " in seen
    assert "count" in seen
    assert "bad/two.nomad.hcl:2:3: " in seen

    source = repository.server.get(f"/v1/gitops/source/{repository.name}")
    assert source["Status"]["AppliedCommit"] == good
    [after] = repository.server.running_allocations(repository.name)
    assert after["ID"] == before["ID"]


def test_two_files_with_one_job_id_are_refused_naming_both(repository: Repository) -> None:
    repository.write("a.nomad.hcl", sleeper(repository.name))
    repository.write("b.nomad.hcl", sleeper(repository.name, version="2"))
    repository.commit("Twice the same job")
    seen = repository.refused_push()
    assert "a.nomad.hcl" in seen
    assert "b.nomad.hcl" in seen
    assert repository.name in seen


def test_deleted_file_stops_its_job_after_the_others_run(repository: Repository) -> None:
    repository.write("keep.nomad.hcl", sleeper(f"{repository.name}-keep"))
    repository.write("drop.nomad.hcl", sleeper(f"{repository.name}-drop"))
    repository.commit("Two jobs")
    repository.push()
    repository.server.running_allocations(f"{repository.name}-drop")

    (repository.path / "drop.nomad.hcl").unlink()
    repository.commit("Drop one")
    seen = repository.push()
    assert f"- {repository.name}-drop: stop" in seen
    job = repository.server.wait_for(
        f"/v1/job/{repository.name}-drop", lambda found: found["Status"] == "dead"
    )
    assert job["Stop"]
    assert len(repository.server.running_allocations(f"{repository.name}-keep")) == 1


def test_moved_file_changes_nothing(repository: Repository) -> None:
    repository.write("here.nomad.hcl", sleeper(repository.name))
    repository.commit("Here")
    repository.push()
    [before] = repository.server.running_allocations(repository.name)
    (repository.path / "there").mkdir()
    (repository.path / "here.nomad.hcl").rename(repository.path / "there/it.nomad.hcl")
    repository.commit("There")
    assert "Healthy after" in repository.push()
    [after] = repository.server.running_allocations(repository.name)
    assert after["ID"] == before["ID"]


def test_symbolic_link_out_of_the_tree_is_not_followed(repository: Repository) -> None:
    text = sleeper(repository.name, version='${file("secret")}')
    repository.write("job.nomad.hcl", text)
    (repository.path / "secret").symlink_to("/etc/passwd")
    repository.commit("A link to a file of the server")
    seen = repository.refused_push()
    assert "secret" in seen
    assert "root:" not in seen


def test_job_that_does_not_fit_is_shown_and_the_rollout_waits(repository: Repository) -> None:
    huge = sleeper(repository.name).replace("memory = 16", "memory = 99999999")
    repository.write("huge.nomad.hcl", huge)
    repository.commit("Too large for the node")
    seen = repository.push("-o", "detach")
    assert "memory" in seen
    evaluations = repository.server.wait_for(
        f"/v1/job/{repository.name}/evaluations",
        lambda found: any(each["Status"] == "blocked" for each in found),
    )
    assert evaluations
