"""Pushes that a server must refuse, or take, without anybody else noticing."""

from __future__ import annotations

from tests.support.hostile.job_files import BIG, JOB_FILES, many, value

JOB = value("1")

TREES: dict[str, tuple[dict[str, bytes], str]] = {
    "gigabytes-of-locals": (
        {"a.nomad.hcl": (BIG + many('"${local.big}x"', 2_000)).encode()},
        "Too much text",
    ),
    "bcrypt-for-hours": (
        {"a.nomad.hcl": value('[for i in range(1000): bcrypt("x", 12)]').encode()},
        "Too much work",
    ),
    "many-files-at-their-limit": (
        {f"{i}.nomad.hcl": JOB_FILES["nested-loops"][0].encode() for i in range(100)},
        "max_steps",
    ),
    "file-of-nothing-but-brackets": (
        {"a.nomad.hcl": b"[" * 1_000_000},
        "a.nomad.hcl:1:",
    ),
    "fileset-that-backtracks": (
        {
            "a.nomad.hcl": value('[fileset(".", "' + "**a" * 30 + 'b")]').encode(),
            **{"d/" + "a" * 200 + f"{i}": b"" for i in range(100)},
        },
        "",
    ),
    "more-allocations-than-any-cluster-has": (
        {"a.nomad.hcl": JOB.replace('"g" {', '"g" {\n count = 4611686018427387904').encode()},
        "job_max_count",
    ),
    "count-of-no-integer": (
        {"a.nomad.hcl": JOB.replace('"g" {', '"g" {\n count = 1e100').encode()},
        "a.nomad.hcl:",
    ),
    "trailer-of-spaces": ({"a.nomad.hcl": b"job {\n"}, "a.nomad.hcl:"),
}
"""name -> (files of the commit, words of the refusal; none: it is taken)"""

MESSAGES = {"trailer-of-spaces": "x\n\nOrchgit-Delete: a" + " \t" * 100_000 + "b"}
"""name -> message of the commit, where it matters"""
