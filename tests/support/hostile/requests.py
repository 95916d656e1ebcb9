"""HTTP requests that an anonymous caller may send, and what may come back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tests.support.hostile.job_files import BIG, JOB_FILES, many
from tests.support.hostile.patterns import FILTERS


@dataclass(frozen=True)
class Request:
    """`statuses`: any of them will do. `words` are in the answer."""

    method: str
    path: str
    body: bytes = b""
    statuses: tuple[int, ...] = (400,)
    words: str = ""


def job(**fields: Any) -> dict[str, Any]:
    """A job that waits for a node for ever: nothing of it runs."""
    return {
        "ID": "hostile",
        "Name": "hostile",
        "Type": "service",
        "Datacenters": ["nowhere"],
        "TaskGroups": [
            {
                "Name": "g",
                "Count": 1,
                "Tasks": [{"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1s"}}],
            }
        ],
        **fields,
    }


def register(wanted: dict[str, Any], *statuses: int, words: str = "") -> Request:
    return Request("PUT", "/v1/jobs", json.dumps({"Job": wanted}).encode(), statuses, words)


def plan(wanted: dict[str, Any], *statuses: int, words: str = "") -> Request:
    body = json.dumps({"Job": wanted, "Diff": True}).encode()
    return Request("PUT", "/v1/job/hostile/plan", body, statuses, words)


def parse(text: str, words: str) -> Request:
    body = json.dumps({"JobHCL": text, "Canonicalize": True}).encode()
    return Request("POST", "/v1/jobs/parse", body, (400,), words)


def with_constraint(operand: str, left: str, right: str) -> dict[str, Any]:
    return job(
        Datacenters=["*"],
        Constraints=[{"LTarget": left, "Operand": operand, "RTarget": right}],
    )


def with_count(count: object) -> dict[str, Any]:
    made = job()
    made["TaskGroups"][0]["Count"] = count
    return made


def with_groups(count: int) -> dict[str, Any]:
    group = job()["TaskGroups"][0]
    return job(TaskGroups=[{**group, "Name": f"g{number}"} for number in range(count)])


BACKTRACKING = with_constraint("regexp", "${attr.kernel.version}" + "a" * 1_000, "(.+)+_")
SPACES = with_constraint("version", "${attr.kernel.version}", " " * 300_000 + "x")

REQUESTS: dict[str, Request] = {
    "parse-bcrypt-of-highest-cost": parse(*JOB_FILES["bcrypt-of-highest-cost"]),
    "parse-bcrypt-in-a-loop": parse(*JOB_FILES["bcrypt-in-a-loop"]),
    "parse-gigabytes-of-locals": parse(BIG + many('"${local.big}x"', 2_000), "Too much text"),
    "parse-nested-loops": parse(*JOB_FILES["nested-loops"]),
    "parse-deep-blocks": parse(*JOB_FILES["deep-blocks"]),
    "parse-wide-tuple": parse("locals {\n  a = [" + "1," * 300_000 + "1]\n}\n", "too "),
    "register-pattern-that-backtracks": register(BACKTRACKING, 200),
    "plan-pattern-that-backtracks": plan(BACKTRACKING, 200),
    "register-pattern-that-is-too-long": register(
        with_constraint("regexp", "${attr.x}", "a|" * 100_000), 400, 500, words="too large"
    ),
    "plan-version-of-spaces": plan(SPACES, 400, 500, words="malformed constraint"),
    "register-datacenter-of-stars": register(job(Datacenters=["*a" * 500 + "b"]), 200),
    "register-two-to-the-62": register(with_count(2**62), 400, 500, words="job_max_count"),
    "register-two-to-the-64": register(with_count(2**64), 400, words="Count"),
    "register-count-of-many-digits": register(with_count("9" * 100_000), 400),
    "plan-fifty-thousand": plan(with_count(50_000), 200),
    "plan-two-to-the-62": plan(with_count(2**62), 400, 500, words="job_max_count"),
    "scale-to-two-to-the-62": Request(
        "PUT",
        "/v1/job/hostile/scale",
        json.dumps({"Target": {"Group": "g"}, "Count": 2**62}).encode(),
        (400, 404),
    ),
    "register-many-groups": register(with_groups(5_000), 200),
    "plan-many-groups": plan(with_groups(1_500), 200),
    "validate-many-constraints": Request(
        "PUT",
        "/v1/validate/job",
        json.dumps(
            {
                "Job": job(
                    Constraints=[
                        {"LTarget": "${attr.x}", "Operand": "regexp", "RTarget": f"(a|{n})*b"}
                        for n in range(20_000)
                    ]
                )
            }
        ).encode(),
        (200,),
    ),
    "register-deep-json": Request(
        "PUT", "/v1/jobs", b'{"Job":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001
    ),
    "register-service-name-of-openings": register(
        job(
            TaskGroups=[
                {
                    "Name": "g",
                    "Services": [{"Name": "${" * 200_000}],
                    "Tasks": [{"Name": "t", "Driver": "mock_driver"}],
                }
            ]
        ),
        400,
        500,
    ),
    **{
        f"filter-{name}": Request("GET", f"/v1/jobs?filter={quote(text)}", statuses=(200, 400, 500))
        for name, text in FILTERS.items()
        if len(text) < 20_000
    },
}
