"""`orchgit blame`: from what runs or is stored back to the commit and the line of the group."""

from __future__ import annotations

import json

from orchgit.cli.user_name import user_name
from tests.e2e.conftest import Repository
from tests.support.job_texts import sleeper, sticky


def two_groups(name: str) -> str:
    """A job of the groups main and second."""
    first = sleeper(name)
    body = first[first.index("  group") : first.rindex("}")]
    second = body.replace('group "main"', 'group "second"')
    return first[: first.rindex("}")] + second + "}\n"


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def test_blame_names_the_line_of_the_group_for_allocation_job_and_node(
    repository: Repository,
) -> None:
    server, name = repository.server, repository.name
    text = two_groups(name)
    repository.write("jobs/two.nomad.hcl", text)
    commit = repository.commit("Two groups")
    repository.push()
    lines = {group: line_of(text, f'group "{group}"') for group in ("main", "second")}
    assert lines["main"] < lines["second"]
    for alloc in server.running_allocations(name, 2):
        found = server.cli_json("blame", alloc["ID"][:8])
        assert found["Type"] == "allocation"
        assert (found["CommitID"], found["Author"], found["Email"]) == (
            commit,
            "Ada",
            "ada@example.org",
        )
        assert (found["File"], found["Line"]) == ("jobs/two.nomad.hcl", 2)
        assert found["GroupLine"] == lines[alloc["TaskGroup"]]

    job = server.cli_json("blame", name)
    assert (job["Type"], job["GroupLines"]) == ("job", lines)
    second = server.cli("blame", name, "-group", "second")
    assert f"jobs/two.nomad.hcl:{lines['second']}" in second.out
    no_group = server.cli("blame", name, "-group", "third")
    assert "cannot find group 'third'" in no_group.err

    [node] = server.get("/v1/nodes")
    origins = server.cli_json("blame", node["Name"], "-type", "node")["Origins"]
    of_job = [each for each in origins if each["JobID"] == name]
    assert {each["TaskGroup"]: each["GroupLine"] for each in of_job} == lines
    assert {each["CommitID"] for each in of_job} == {commit}
    shown = server.cli("blame", node["ID"][:8])
    assert f"jobs/two.nomad.hcl:{lines['second']}" in shown.out
    assert commit[:8] in shown.out


def test_blame_tells_who_changed_a_job_by_hand(repository: Repository) -> None:
    server, name = repository.server, repository.name
    repository.write("j.nomad.hcl", sleeper(name))
    repository.commit("One")
    repository.push()
    assert server.cli_json("blame", name)["ChangedBy"] is None
    scaled = server.cli("job", "scale", "-detach", name, "2")
    assert scaled.code == 0, scaled.text
    found = server.cli_json("blame", name)
    assert found["ChangedBy"]["Via"] == "scale"
    assert "by job scale" in server.cli("blame", name).out


def test_blame_follows_a_volume_to_the_group_that_claims_it(repository: Repository) -> None:
    server, volume = repository.server, f"{repository.name}-data"
    assert server.cli("volume", "create", "-name", volume).code == 0
    text = sticky(repository.name, volume)
    repository.write("s.nomad.hcl", text)
    commit = repository.commit("Claim it")
    repository.push()
    found = server.cli_json("blame", volume)
    assert found["Type"] == "volume"
    [origin] = found["Origins"]
    assert (origin["Type"], origin["CommitID"]) == ("claim", commit)
    assert origin["GroupLine"] == line_of(text, "group ")
    claim = server.cli_json("blame", origin["ClaimID"][:8])
    assert (claim["CommitID"], claim["GroupLine"]) == (commit, origin["GroupLine"])


def test_blame_of_a_variable_says_when_and_which_job_reads_it(repository: Repository) -> None:
    server, name = repository.server, repository.name
    repository.write("j.nomad.hcl", sleeper(name))
    commit = repository.commit("One")
    repository.push()
    path = f"nomad/jobs/{name}/main"
    assert server.cli("var", "put", path, "password=hunter2").code == 0
    found = server.cli("blame", path, "-json")
    assert "hunter2" not in found.text
    data = json.loads(found.out)
    assert (data["Type"], data["Path"]) == ("variable", path)
    assert data["ModifyTime"] > 0
    writer = data["Token"]["Author"]
    assert (writer["Name"], writer["IsClaimed"]) == (user_name(), True)
    shown = server.cli("blame", path)
    assert f"Changed by = {user_name()} (claimed) from 127.0.0.1, " in shown.out
    [origin] = data["Origins"]
    assert (origin["JobID"], origin["TaskGroup"], origin["CommitID"]) == (name, "main", commit)


def test_blame_of_nothing_and_of_several_things_is_one_sentence(repository: Repository) -> None:
    server = repository.server
    nothing = server.cli("blame", "no-such-thing")
    assert nothing.code == 1
    assert 'cannot find an allocation, node, volume, claim, job or variable "no-such' in nothing.err
    assert len(nothing.err.strip().splitlines()) == 1


def test_allocation_that_was_updated_in_place_comes_from_the_commit_that_it_runs_now(
    repository: Repository,
) -> None:
    server, name = repository.server, repository.name
    repository.write("jobs/grown.nomad.hcl", sleeper(name))
    repository.commit("One")
    repository.push()
    [first] = server.running_allocations(name)
    repository.write("jobs/grown.nomad.hcl", sleeper(name, count=2))
    second = repository.commit("Two of them")
    repository.push()
    server.running_allocations(name, 2)
    found = server.cli_json("blame", first["ID"])
    assert (found["CommitID"], found["Subject"], found["JobVersion"]) == (second, "Two of them", 1)
