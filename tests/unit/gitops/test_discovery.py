"""Jobs of a tree: each changed file is parsed once, every problem reported, no other file read."""

import msgspec
import pytest

from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.git.repository import EntryKind, TreeEntry
from orchgit.gitops.parsing.discovery import Discoverer, Discovery
from orchgit.gitops.parsing.file_functions import TreeFiles
from orchgit.gitops.parsing.trees import MemoryTree, blob_id_of
from orchgit.model.source import Source
from tests.support.git_repos import batch_job
from tests.support.gitops_rig import CountingParser

LIMITS = GitLimits()
SOURCE = Source(name="demo")


def tree(files: dict[str, str | bytes]) -> MemoryTree:
    contents = {n: c.encode() if isinstance(c, str) else c for n, c in files.items()}
    return MemoryTree(contents, LIMITS)


class Reader:
    def __init__(self) -> None:
        self.parser = CountingParser()
        self.discoverer = Discoverer(self.parser)

    def read(self, files: dict[str, str | bytes], **settings: object) -> Discovery:
        self.parser.parsed.clear()
        source = msgspec.structs.replace(SOURCE, **settings)
        return self.discoverer.discover(tree(files), source)


def test_discovered_jobs_have_their_file_and_line() -> None:
    found = Reader().read({"a/web.nomad.hcl": "\n\n" + batch_job("web"), "README.md": "no job"})
    (job,) = found.jobs.values()
    assert (job.path, job.line, job.job.id, job.job.type) == ("a/web.nomad.hcl", 3, "web", "batch")
    assert job.blob_id == blob_id_of(("\n\n" + batch_job("web")).encode())
    assert found.problems == ()


def test_only_changed_files_are_parsed() -> None:
    reader = Reader()
    files: dict[str, str | bytes] = {f"{n}.hcl": batch_job(f"j{n}") for n in range(20)}
    before = reader.read(files)
    assert before.parsed_count == 20
    after = reader.read(files | {"7.hcl": batch_job("j7", text="new")})
    assert (reader.parser.parsed, after.parsed_count) == (["7.hcl"], 1)
    same = [key for key in after.jobs if after.jobs[key] is before.jobs[key]]
    assert len(same) == 19
    assert reader.read(files).parsed_count == 0


def test_changed_variable_parses_every_file_again() -> None:
    text = 'variable "name" {}\n' + batch_job("web", text="${var.name}")
    reader = Reader()
    one = reader.read({"web.hcl": text}, variables={"name": "a"})
    two = reader.read({"web.hcl": text}, variables={"name": "b"})
    (first,), (second,) = one.jobs.values(), two.jobs.values()
    assert first.job != second.job
    assert reader.read({"web.hcl": text}, variables={"name": "a", "unused": "x"}).parsed_count == 1


def test_var_files_come_from_the_tree() -> None:
    text = 'variable "name" {}\n' + batch_job("web", text="${var.name}")
    reader = Reader()
    files: dict[str, str | bytes] = {"web.hcl": text, "prod.vars.hcl": 'name = "prod"'}
    found = reader.read(files, var_files=["prod.vars.hcl"])
    assert found.problems == ()
    assert found.parsed_count == 1
    missing = reader.read({"web.hcl": text}, var_files=["../../etc/passwd", "no.hcl"])
    assert [problem.split(":")[0] for problem in missing.problems[:2]] == [
        "../../etc/passwd",
        "no.hcl",
    ]


def test_change_of_a_file_that_a_job_file_reads_parses_the_job_file_again() -> None:
    text = batch_job("web", text='${file("motd.txt")}')
    reader = Reader()
    files: dict[str, str | bytes] = {"d/web.hcl": text, "d/motd.txt": "one", "motd.txt": "root"}
    one = reader.read(files)
    assert one.problems == ()
    assert reader.read(files).parsed_count == 0
    two = reader.read(files | {"d/motd.txt": "two"})
    assert two.parsed_count == 1
    assert next(iter(one.jobs.values())).job != next(iter(two.jobs.values())).job
    del files["d/motd.txt"]
    assert "root" in str(next(iter(reader.read(files).jobs.values())).job)


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "x/../../secret", "nowhere"])
def test_a_file_outside_the_tree_is_a_problem_with_its_place(path: str) -> None:
    text = batch_job("web", text=f'${{file("{path}")}}')
    found = Reader().read({"web.hcl": text})
    (problem,) = found.problems
    assert problem.startswith("web.hcl:9:23: ")
    assert "root:" not in problem


def test_every_problem_of_every_file_is_reported() -> None:
    found = Reader().read(
        {
            "x/a.hcl": batch_job("a").replace("count", "cuont"),
            "y/a.hcl": batch_job("b").replace("driver", "drvier").replace("group", "gruop"),
            "ok.hcl": batch_job("ok"),
        }
    )
    assert {problem.split(":")[0] for problem in found.problems} == {"x/a.hcl", "y/a.hcl"}
    assert all(problem.split(":")[1].isdigit() for problem in found.problems)
    assert len(found.problems) >= 2


def test_two_files_with_one_id_name_each_other() -> None:
    found = Reader().read({"a.hcl": batch_job("web"), "b/c.hcl": "\n" + batch_job("web")})
    assert found.problems == (
        "b/c.hcl:2:1: job 'web' is also defined in a.hcl:1; a job has one file",
    )


def test_file_that_is_not_text_is_a_problem() -> None:
    found = Reader().read({"web.hcl": batch_job("web").encode() + b"\n# \xff\n"})
    (problem,) = found.problems
    assert problem.startswith("web.hcl:")
    assert "UTF-8" in problem


def test_a_huge_file_is_named_with_its_limit() -> None:
    found = Reader().read({"web.hcl": b"#" * (LIMITS.max_file_bytes + 1)})
    assert "max_file_bytes" in found.problems[0]


def test_a_link_is_a_problem_and_never_followed() -> None:
    class Linked(MemoryTree):
        def matching(self, globs, exclude=()):  # type: ignore[no-untyped-def]
            return [TreeEntry("web.hcl", "a" * 40, EntryKind.LINK)]

    found = Discoverer(CountingParser()).discover(Linked({}, LIMITS), SOURCE)
    assert found.problems == ("web.hcl:1:1: cannot read a symbolic link: links are not followed",)


def test_a_source_of_one_namespace_keeps_its_jobs_there() -> None:
    reader = Reader()
    found = reader.read({"web.hcl": batch_job("web")}, namespace="team")
    assert list(found.jobs) == [("team", "web")]
    foreign = batch_job("web", extra='  namespace = "prod"\n')
    refused = reader.read({"web.hcl": foreign}, namespace="team")
    assert "may only use 'team'" in refused.problems[0]
    assert list(reader.read({"web.hcl": foreign}).jobs) == [("prod", "web")]


def test_file_functions_see_the_files_of_the_tree() -> None:
    files = TreeFiles(tree({"d/a.txt": "a", "d/sub/b.txt": "b", "c.txt": "c"}), "d/job.hcl")
    assert files.read("a.txt") == b"a"
    assert files.read("../c.txt") == files.read("c.txt") == b"c"
    assert files.exists("a.txt")
    assert not files.exists("b.txt")
    assert files.glob(".", "**") == ["a.txt", "sub/b.txt"]
    assert files.absolute("a.txt") == "/d/a.txt"
    for outside in ("../../x", "/etc/passwd"):
        with pytest.raises(OSError, match="out of the repository"):
            files.read(outside)
