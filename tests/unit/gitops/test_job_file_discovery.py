"""Which files of a real repository are job files, and which only lie beside them."""

import json

import msgspec
import pytest

from orchgit.errors import InvalidInputError
from orchgit.gitops.commits.actions import RegisteredJob, plan_actions
from orchgit.gitops.commits.deletions import emptied_file_problems
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.parsing.discovery import Discoverer, Discovery
from orchgit.gitops.parsing.trees import MemoryTree
from orchgit.model.job import JobOrigin
from orchgit.model.rollout import JobAction
from orchgit.model.source import DEFAULT_PATHS, PrunePolicy, Source
from tests.support.git_repos import batch_job
from tests.support.gitops_rig import CountingParser

NEIGHBOURS = {
    "prod.vars.hcl": 'image = "web:3"\ncount = 2\n',
    "terraform/.terraform.lock.hcl": 'provider "x/y" {\n  version = "1.0.0"\n}\n',
    "terragrunt.hcl": 'include "root" {\n  path = find_in_parent_folders()\n}\n',
    "image.pkr.hcl": 'source "docker" "x" {\n  image = "a"\n}\nbuild {\n  sources = ["x"]\n}\n',
    "agents/server.hcl": 'data_dir = "/x"\nserver {\n  enabled = true\n}\n',
    "policy.hcl": 'namespace "default" {\n  policy = "write"\n}\n',
    "empty.hcl": "",
    "comment.hcl": "# job files live elsewhere\n",
    "broken.hcl": 'thing "x" {\n',
    "orchgit.hcl": 'job "policy" {}\n',
    "package.json": '{"job": 1}',
    "README.md": "job",
}
API_JOB = {
    "ID": "web",
    "Name": "web",
    "Type": "batch",
    "TaskGroups": [
        {"Name": "g", "Tasks": [{"Name": "t", "Driver": "mock", "Config": {"run_for": "1s"}}]}
    ],
}
HCL_JSON = {"job": {"web": {"type": "batch", "group": {"g": {"task": {"t": {"driver": "mock"}}}}}}}


def read(files: dict[str, str], cluster: str = "global", **settings: object) -> Discovery:
    source = msgspec.structs.replace(Source(name="demo"), **settings)
    contents = {name: text.encode() for name, text in files.items()}
    discoverer = Discoverer(CountingParser(), region=cluster)
    return discoverer.discover(MemoryTree(contents, GitLimits()), source)


def jobs(found: Discovery) -> set[str]:
    return {job_id for _, job_id in found.jobs}


def test_files_beside_the_jobs_are_no_error_with_the_default_paths() -> None:
    found = read(NEIGHBOURS | {"web.hcl": batch_job("web"), "a/b.nomad": batch_job("b")})
    assert found.problems == ()
    assert jobs(found) == {"web", "b"}
    assert found.without_job == {
        name for name in NEIGHBOURS if name.endswith(".hcl") and name != "orchgit.hcl"
    }


@pytest.mark.parametrize("path", ["agents/server.hcl", "./agents/server.hcl"])
def test_path_that_names_a_file_without_a_job_is_an_error(path: str) -> None:
    found = read(NEIGHBOURS, paths=[path])
    assert found.problems
    assert all(each.startswith("agents/server.hcl:") for each in found.problems)


@pytest.mark.parametrize("name", ["web.nomad.hcl", "web.nomad", "web.nomad.json"])
def test_file_named_as_a_job_without_a_job_is_an_error(name: str) -> None:
    found = read({name: "" if not name.endswith("json") else "{}"})
    assert found.problems
    assert found.problems[0].startswith(f"{name}:1:1: ")


@pytest.mark.parametrize(
    "text",
    [
        batch_job("web").replace("{", "", 1),
        batch_job("web").replace('job "web"', "job"),
        batch_job("web")[:-3],
        "<<<<<<< HEAD\n" + batch_job("web"),
        'variable "x" {\n' + batch_job("web"),
        batch_job("web") + "\x00",
        "job = {}\n",
    ],
)
def test_broken_job_is_an_error_and_never_ignored(text: str) -> None:
    found = read({"web.hcl": text})
    assert found.problems, text
    assert found.without_job == frozenset()


def test_excluded_files_are_not_read() -> None:
    files = {"jobs/web.hcl": batch_job("web"), "jobs/old/x.nomad": "broken {"}
    assert read(files).problems
    found = read(files, exclude=["**/old/**"])
    assert (found.problems, jobs(found)) == ((), {"web"})


@pytest.mark.parametrize("tree", [API_JOB, {"Job": API_JOB}, HCL_JSON], ids=["bare", "Job", "hcl"])
def test_json_job_is_read_by_default(tree: dict[str, object]) -> None:
    found = read({"jobs/web.nomad.json": json.dumps(tree, indent=2), "other.json": "{}"})
    assert found.problems == ()
    (job,) = found.jobs.values()
    assert (job.job.id, job.job.type, job.job.task_groups[0].tasks[0].driver) == (
        "web",
        "batch",
        "mock",
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"Job": {"Name": "x"}}',
        '{"Job": {"ID": "web", "TaskGroups": 3}}',
        '{"Job": {"ID": "web", "Type": "nonsense"}}',
        '{"Job": ',
        '{"job": {"web": {"group": 1}}}',
        "{" * 10_000,
    ],
)
def test_bad_json_job_is_an_error_of_its_file(text: str) -> None:
    for name, paths in (("web.nomad.json", list(DEFAULT_PATHS)), ("web.json", ["**/*.json"])):
        if text.startswith("{{") and name == "web.json":
            continue  # nothing in it looks like a job
        found = read({name: text}, paths=paths)
        assert found.problems, text
        assert found.problems[0].startswith(f"{name}:"), found.problems


def test_file_of_git_lfs_is_an_error_that_names_it() -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"
    for name in ("web.nomad", "web.hcl"):
        (problem,) = read({name: pointer}).problems
        assert problem.startswith(f"{name}:1:1: cannot read a file of Git LFS")
    text = batch_job("web", text='${file("motd")}')
    assert "Git LFS" in read({"web.hcl": text, "motd": pointer}).problems[0]


def in_region(region: str) -> str:
    return batch_job("web").replace("{", f'{{\n  region = "{region}"', 1)


def test_job_of_another_region_is_refused_with_the_way_out() -> None:
    (problem,) = read({"web.hcl": in_region("us")}, "eu").problems
    assert problem.startswith("web.hcl:1:1: job 'web' names region 'us', and this cluster is")
    assert read({"web.hcl": in_region("eu")}, "eu").problems == ()
    assert read({"web.hcl": batch_job("web")}, "eu").problems == ()


def test_region_of_the_source_is_that_of_jobs_that_name_none() -> None:
    (job,) = read({"web.hcl": batch_job("web")}, "eu", region="eu").jobs.values()
    assert job.job.region == "eu"
    with pytest.raises(InvalidInputError, match="it is for region 'us', and this cluster is"):
        read({"web.hcl": batch_job("web")}, "eu", region="us")


def test_deleting_the_job_of_a_file_that_stays_needs_a_trailer() -> None:
    found = read({"web.hcl": batch_job("web")})
    ((key, desired),) = found.jobs.items()
    origin = JobOrigin(source="demo", file="web.hcl")
    registered = RegisteredJob(msgspec.structs.replace(desired.job, origin=origin))
    emptied = read({"web.hcl": "# nothing", "b.hcl": batch_job("b")})
    actions = plan_actions("demo", emptied.jobs, {key: registered}, PrunePolicy(), ())
    deleted = [each.registered.job for each in actions.of(JobAction.DELETE) if each.registered]
    (problem,) = emptied_file_problems(deleted, emptied.without_job, ())
    assert problem.startswith("web.hcl:1:1: this file defined job 'web' and holds no job now")
    assert list(emptied_file_problems(deleted, emptied.without_job, ("web",))) == []
    gone = read({"b.hcl": batch_job("b")})
    assert list(emptied_file_problems(deleted, gone.without_job, ())) == []
