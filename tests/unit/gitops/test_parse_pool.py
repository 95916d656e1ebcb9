"""The pool of parsing processes: a file that breaks its process fails alone."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec
import pytest

from orchgit.errors import InvalidInputError, JobFileError, OrchgitError, UnavailableError
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.parsing.discovery import Discoverer
from orchgit.gitops.parsing.file_functions import TreeFiles
from orchgit.gitops.parsing.job_parser import JobspecParser
from orchgit.gitops.parsing.messages import Form
from orchgit.gitops.parsing.pool import ParsePool
from orchgit.gitops.parsing.port import Inputs, JobFile, ParsedFile, VarFile, parse_each
from orchgit.gitops.parsing.process import ParseLimits
from orchgit.gitops.parsing.trees import MemoryTree
from orchgit.model.source import Source
from tests.support.faulty_parse_worker import STANDS_STILL_S
from tests.support.git_repos import batch_job

FAULTY = (sys.executable, "-m", "tests.support.faulty_parse_worker")
SHORT_S = 0.05
LIMITS = ParseLimits(parse_processes=2, files_a_process=16, command=FAULTY, parse_timeout_s=20.0)


@pytest.fixture
def pool() -> Iterator[ParsePool]:
    pool = ParsePool(LIMITS)
    yield pool
    pool.close()


def job_file(path: str, text: str = "", around: dict[str, str] | None = None) -> JobFile:
    content = (text or batch_job(path.partition(".")[0])).encode()
    tree = MemoryTree({n: c.encode() for n, c in (around or {}).items()}, GitLimits())
    return JobFile(path, lambda: content, TreeFiles(tree, path))


def ids(results: Sequence[ParsedFile | OrchgitError]) -> list[str]:
    return [r.job.id if isinstance(r, ParsedFile) else type(r).__name__ for r in results]


def test_answers_are_in_order_and_as_if_parsed_here(pool: ParsePool) -> None:
    files = [job_file(f"j{n}.hcl") for n in range(100)]
    files[13] = job_file("j13.hcl", "job {")
    files[14] = job_file("j14.hcl", batch_job("j14").replace("batch", "no-type"))
    here = parse_each(JobspecParser(), files, Inputs())
    there = pool.parse(files, Inputs())
    assert [r for r in there if isinstance(r, ParsedFile)] == [
        r for r in here if isinstance(r, ParsedFile)
    ]
    assert ids(there) == ids(here)
    for number in (13, 14):
        wrong, known = there[number], here[number]
        assert isinstance(wrong, JobFileError)
        assert isinstance(known, JobFileError)
        assert (str(wrong), wrong.problems) == (str(known), known.problems)
        assert wrong.problems[0].startswith(f"j{number}.hcl:")


def test_parsing_process_sees_variables_var_files_and_the_tree(pool: ParsePool) -> None:
    text = 'variable "a" {}\nvariable "b" {}\n' + batch_job(
        "j",
        text='${var.a}${var.b}${file("motd")}${fileexists("no")}${join(",", fileset(".", "*"))}',
    )
    around = {"motd": "hello", "other": ""}
    files = [job_file(f"j{n}.hcl", text.replace('"j"', f'"j{n}"'), around) for n in range(40)]
    inputs = Inputs({"a": "x"}, [VarFile("v.hcl", b'b = "y"')])
    there = pool.parse(files, inputs)
    assert there == parse_each(JobspecParser(), files, inputs)
    assert isinstance(there[0], ParsedFile)
    again = job_file("j.hcl", text, around)
    JobspecParser().parse(again, inputs)
    assert isinstance(files[0].files, TreeFiles)
    assert isinstance(again.files, TreeFiles)
    assert files[0].files.depends == again.files.depends


def test_missing_file_is_a_problem_of_the_file_that_reads_it(pool: ParsePool) -> None:
    files = [job_file(f"j{n}.hcl") for n in range(20)]
    files[5] = job_file("j5.hcl", batch_job("j5", text='${file("gone")}'))
    results = pool.parse(files, Inputs())
    assert ids(results)[5] == "JobFileError"
    assert "gone" in str(results[5])
    assert ids(results).count("JobFileError") == 1


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("killed", "signal 9"),
        ("crash", "exit code 3: something broke"),
        ("greedy", "parse_memory_bytes"),
    ],
)
def test_a_file_that_ends_its_process_is_refused_alone(
    pool: ParsePool, name: str, says: str
) -> None:
    files = [job_file(f"j{n}.hcl") for n in range(60)]
    files[31] = job_file(f"{name}.hcl")
    results = pool.parse(files, Inputs())
    assert says in str(results[31])
    assert ids(results) == [*(f"j{n}" for n in range(31)), "JobFileError"] + [
        f"j{n}" for n in range(32, 60)
    ]
    assert ids(pool.parse(files[:31], Inputs())) == [f"j{n}" for n in range(31)]


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        pytest.param(
            "hang.hcl", replace(LIMITS, parse_timeout_s=4.0, stall_timeout_s=4.0), id="waits"
        ),
        pytest.param("spin.hcl", replace(LIMITS, parse_timeout_s=1.0), id="calculates"),
    ],
)
def test_a_file_that_takes_too_long_is_refused_with_the_limit(
    name: str, limits: ParseLimits
) -> None:
    pool = ParsePool(limits)
    files = [job_file(f"j{n}.hcl") for n in range(40)]
    files[3] = job_file(name)
    results = pool.parse(files, Inputs())
    pool.close()
    said = f"within {limits.parse_timeout_s:g} s, the limit parse_timeout_s"
    assert said in str(results[3])
    assert ids(results) == [f"j{n}" if n != 3 else "TimedOutError" for n in range(40)]


def test_file_is_parsed_after_its_process_stood_still_for_longer_than_the_limit() -> None:
    pool = ParsePool(replace(LIMITS, parse_timeout_s=STANDS_STILL_S / 2))
    assert ids(pool.parse([job_file("stand-still.hcl")], Inputs())) == ["stand-still"]
    pool.close()


def test_the_rest_is_given_up_when_too_many_processes_were_lost() -> None:
    pool = ParsePool(replace(LIMITS, max_lost_processes=2))
    files = [job_file(f"crash-{n}.hcl") for n in range(100)]
    results = pool.parse(files, Inputs())
    pool.close()
    assert len(results) == 100
    assert "max_lost_processes" in str(results[-1])
    assert sum("something broke" in str(result) for result in results) < 6


def test_parsing_fails_when_no_process_starts() -> None:
    for command, why in (
        ((*FAULTY, "refuses"), "no such luck"),
        (("/no/such/program",), "No such file"),
    ):
        pool = ParsePool(replace(LIMITS, command=command))
        with pytest.raises(UnavailableError, match=why):
            pool.parse([job_file("a.hcl"), job_file("b.hcl")], Inputs())
        assert pool.process_ids() == []


def test_a_file_that_cannot_be_read_is_not_sent(pool: ParsePool) -> None:
    def unreadable() -> bytes:
        raise InvalidInputError("cannot read a symbolic link: links are not followed")

    good = job_file("a.hcl")
    results = pool.parse([good, JobFile("l.hcl", unreadable, good.files), good], Inputs())
    assert ids(results) == ["a", "InvalidInputError", "a"]
    links = [JobFile(f"l{n}.hcl", unreadable, good.files) for n in range(40)]
    assert ids(pool.parse(links, Inputs())) == ["InvalidInputError"] * 40


def test_interrupted_parse_leaves_no_process_behind(pool: ParsePool) -> None:
    def broken() -> bytes:
        raise KeyboardInterrupt

    good = job_file("a.hcl")
    with pytest.raises(KeyboardInterrupt):
        pool.parse([good, JobFile("b.hcl", broken, good.files)], Inputs())
    assert pool.process_ids() == []
    assert ids(pool.parse([good], Inputs())) == ["a"]


def test_idle_processes_are_reused_and_dead_ones_replaced() -> None:
    pool = ParsePool(replace(LIMITS, idle_s=3600.0))
    files = [job_file(f"j{n}.hcl") for n in range(40)]
    pool.parse(files, Inputs())
    first = pool.process_ids()
    assert first
    pool.parse(files, Inputs())
    assert set(first) & set(pool.process_ids())
    for pid in pool.process_ids():
        os.kill(pid, 9)
    assert ids(pool.parse(files, Inputs())) == [f"j{n}" for n in range(40)]
    last = pool.process_ids()
    pool.close()
    assert pool.process_ids() == []
    for pid in last:
        assert not os.path.exists(f"/proc/{pid}")


def test_idle_processes_are_ended() -> None:
    pool = ParsePool(replace(LIMITS, idle_s=SHORT_S))
    pool.parse([job_file("a.hcl"), job_file("b.hcl")], Inputs())
    wait_for_rest()
    assert pool.process_ids() == []


def test_parsing_process_has_no_environment_of_the_server(
    pool: ParsePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOMAD_TOKEN", "secret")
    files = [job_file("environment.hcl", batch_job("e", text="ENVIRONMENT")), job_file("b.hcl")]
    (found, _) = pool.parse(files, Inputs())
    assert isinstance(found, ParsedFile)
    config = str(found.job.task_groups[0].tasks[0].config)
    assert "PYTHONPATH" in config
    assert "NOMAD_TOKEN" not in config


def test_a_commit_of_many_files_uses_the_pool(pool: ParsePool) -> None:
    files = {f"{n}.hcl": batch_job(f"j{n}").encode() for n in range(30)}
    tree = MemoryTree({**files, "crash.hcl": batch_job("c").encode()}, GitLimits())
    found = Discoverer(JobspecParser(pool)).discover(tree, Source(name="demo"))
    assert len(found.jobs) == 30
    assert any(problem.startswith("crash.hcl:1:1: cannot parse") for problem in found.problems)


def test_one_process_is_kept_warm_and_replaced_when_it_has_grown() -> None:
    pool = ParsePool(replace(LIMITS, warm=1, idle_s=SHORT_S))
    pool.warm_up()
    (first,) = pool.process_ids()
    assert ids(pool.parse([job_file("a.hcl")], Inputs())) == ["a"]
    assert pool.process_ids() == [first]
    wait_for_rest()
    assert pool.process_ids() == [first]
    pool.limits = replace(pool.limits, idle_memory_bytes=1)
    assert ids(pool.parse([job_file("b.hcl")], Inputs())) == ["b"]
    wait_for_rest()
    assert pool.process_ids() == []
    pool.warm_up()
    (second,) = pool.process_ids()
    assert second != first
    pool.close()
    assert not os.path.exists(f"/proc/{second}")


def test_process_that_holds_much_memory_is_not_given_the_next_files() -> None:
    pool = ParsePool(replace(LIMITS, parse_processes=1))
    assert ids(pool.parse([job_file("a.hcl")], Inputs())) == ["a"]
    (first,) = pool.process_ids()
    assert ids(pool.parse([job_file("b.hcl")], Inputs())) == ["b"]
    assert pool.process_ids() == [first]
    pool.limits = replace(pool.limits, idle_memory_bytes=1)
    assert ids(pool.parse([job_file("c.hcl")], Inputs())) == ["c"]
    assert first not in pool.process_ids()
    pool.close()


def test_warm_process_ends_when_no_work_comes_for_long() -> None:
    pool = ParsePool(replace(LIMITS, warm=1))
    pool.warm_up()
    (warm,) = pool.process_ids()
    pool.limits = replace(pool.limits, warm_idle_s=SHORT_S)
    pool.warm_up()
    wait_for_rest()
    assert pool.process_ids() == []
    assert not os.path.exists(f"/proc/{warm}")
    assert ids(pool.parse([job_file("a.hcl")], Inputs())) == ["a"]
    pool.close()


def wait_for_rest() -> None:
    """Waits until the timers of `SHORT_S` are over, those included that were before this call."""
    for timer in threading.enumerate():
        if isinstance(timer, threading.Timer) and timer.interval == SHORT_S:
            timer.join(60)


def test_single_file_is_parsed_in_a_process(pool: ParsePool) -> None:
    (killed,) = JobspecParser(pool).parse_many([job_file("killed.hcl")], Inputs())
    assert "signal 9" in str(killed)


def test_text_of_a_request_becomes_the_apis_json_and_reads_no_file(pool: ParsePool) -> None:
    file = job_file("input.hcl", batch_job("j"), {"motd": "hello"})
    plain = msgspec.json.decode(pool.spec(file, Inputs(), Form.SPEC))
    assert (plain["ID"], plain["Priority"]) == ("j", None)
    assert msgspec.json.decode(pool.spec(file, Inputs(), Form.SPEC_WITH_DEFAULTS))["Priority"] == 50
    reads = job_file("input.hcl", batch_job("j", text='${file("motd")}'), {"motd": "hello"})
    with pytest.raises(JobFileError, match="filesystem function disabled"):
        pool.spec(reads, Inputs(), Form.SPEC)


def test_file_that_took_too_long_once_is_parsed_again_the_next_time() -> None:
    pool = ParsePool(replace(LIMITS, stall_timeout_s=0.5, parse_timeout_s=0.5))
    discoverer = Discoverer(JobspecParser(pool))
    tree = MemoryTree({"hang.nomad.hcl": batch_job("hang").encode()}, GitLimits())
    source = Source(name="demo")
    assert "parse_timeout_s" in discoverer.discover(tree, source).problems[0]
    pool.limits = replace(LIMITS, command=ParseLimits().command)
    assert [key[1] for key in discoverer.discover(tree, source).jobs] == ["hang"]
    pool.close()


def test_rest_of_a_commit_is_given_up_when_its_files_take_too_many_steps() -> None:
    pool = ParsePool(replace(LIMITS, parse_processes=1, max_steps=3_000))
    costly = '${join("", [for i in range(500): "${i}"])}'
    files = [job_file(f"j{n}.hcl", batch_job(f"j{n}", text=costly)) for n in range(100)]
    results = pool.parse(files, Inputs())
    pool.close()
    assert ids(results)[0] == "j0"
    assert "above the limit max_steps of one commit" in str(results[-1])
