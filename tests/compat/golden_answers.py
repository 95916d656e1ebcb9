"""Sends the requests of `answers.json`, whose bodies were not recorded, and compares the answers.

`BODIES` holds what the name of each check asks for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from tests.compat.golden_fixtures import Fixtures, service_job, small_job
from tests.compat.golden_shape import mismatches

ON_PURPOSE = {"quotas_ent": "quotas are for everybody"}
KNOWN_DIFFERENCES = {
    # Null where a namespace has none; the first of the recorded ones had some.
    "[].Meta: an object expected, got None": "namespaces without meta",
    # No workload identities: a task has none unless its file asks for one.
    ".Identity": "workload identities",
    # Null while a task runs; the recorded tasks had ended.
    ".FinishedAt": "time",
    # What a difference holds follows from the jobs compared; golden/diff has whole ones.
    ".Diff.": "the difference",
}


Body = Callable[[Fixtures, dict[str, str]], Any]


def _job(job: Any, **fields: Any) -> dict[str, Any]:
    return {"Job": job, **fields}


def _changed_job(fixtures: Fixtures, names: dict[str, str]) -> Any:
    return _job(service_job(names["job"], Priority=51, group={"Count": 2}), Diff=True)


def _registered_job(fixtures: Fixtures, names: dict[str, str]) -> Any:
    return _job(service_job(names["job"]), Diff=True)


HCL = """
job "x" {
  group "g" {
    count = 1
    task "t" {
      driver = "raw_exec"
      config {
        command = "x"
      }
    }
  }
}
"""
BODIES: dict[str, Body | Any] = {
    "alloc_restart": {"TaskName": "t"},
    "alloc_restart_bad_task": {"TaskName": "zz"},
    "alloc_signal": {"Signal": "SIGWINCH", "Task": "t"},
    "autopilot_configuration_cas": {"CleanupDeadServers": True},
    "client_metadata_put": {"Meta": {"a": "b"}},
    "deployment_fail": {},
    "deployment_fail_terminal": {},
    "deployment_health": lambda fixtures, names: {
        "HealthyAllocationIDs": [
            fixtures.rig.http.get(f"/v1/deployment/allocations/{names['owndep']}").json()[0]["ID"]
        ]
    },
    "deployment_pause": {"Pause": True},
    "deployment_pause_terminal": {"Pause": True},
    "deployment_promote_terminal": {"All": True},
    "job_dispatch": {"Meta": {"m": "1"}},
    "job_dispatch_404": {},
    "job_dispatch_missing": {},
    "job_evaluate": {},
    "job_evaluate_404": {},
    "job_parse": {"JobHCL": HCL, "Canonicalize": True},
    "job_parse_raw": {"JobHCL": HCL},
    "job_parse_bad": {"JobHCL": 'job "x" {'},
    "job_parse_empty": {"JobHCL": ""},
    "job_plan": _changed_job,
    "job_plan_new": _job(
        small_job(
            "zz-new", Constraints=[{"LTarget": "${node.class}", "RTarget": "x", "Operand": "="}]
        ),
        Diff=True,
    ),
    "job_plan_no_diff": _job(small_job("zz-new")),
    "job_register": _job(small_job("cf-reg")),
    "job_register_bad_json": b"{nope",
    "job_register_enforce": lambda fixtures, names: _job(
        service_job(names["job"]), EnforceIndex=True, JobModifyIndex=1
    ),
    "job_register_id_mismatch": _job(small_job("cf-other")),
    "job_register_invalid": _job({"ID": "zz-i", "Type": "service", "TaskGroups": []}),
    "job_register_no_id": _job({"Type": "service"}),
    "job_register_no_job": {},
    "job_register_put_id": lambda fixtures, names: _job(
        small_job(names["own"], kind="service", command="exec sleep 1001")
    ),
    "job_register_type_change": lambda fixtures, names: _job(small_job(names["job"])),
    "job_register_warnings": _job(service_job("cf-warn", group={"Update": {"Canary": 2}})),
    "job_revert": {"JobVersion": 0},
    "job_revert_enforce": {"JobVersion": 0, "EnforcePriorVersion": 9},
    "job_revert_same": {"JobVersion": 0},
    "job_scale": {"Count": 0, "Target": {"Group": "g"}},
    "job_scale_bounds": {"Count": 9, "Target": {"Group": "g"}},
    "job_scale_error_event": {"Error": True, "Message": "m", "Target": {"Group": "g"}},
    "job_scale_no_group": {"Count": 1, "Target": {"Group": "zz"}},
    "job_scale_no_target": {"Count": 1},
    "job_stable": {"JobVersion": 0, "Stable": True},
    "job_tag": {"Description": "d"},
    "job_validate": _job(small_job("cf-v")),
    "job_validate_bad": _job({"ID": "zz-v", "Type": "service", "TaskGroups": []}),
    "jobs_statuses_post": lambda fixtures, names: {
        "jobs": [{"id": names["job"], "namespace": "default"}]
    },
    "namespace_bad_name": {"Name": "bad name!"},
    "namespace_put": {"Name": "cf-put"},
    "node_drain_nil": {"DrainSpec": None},
    "node_eligibility": {"Eligibility": "eligible"},
    "node_eligibility_bad": {"Eligibility": "maybe"},
    "node_pool_put": {"Name": "cf-pool2"},
    "scheduler_configuration_bad": {"SchedulerAlgorithm": "zz"},
    "scheduler_configuration_cas": {"SchedulerAlgorithm": "binpack"},
    "search_all": {"Prefix": "cf-", "Context": "all"},
    "search_allocs": lambda fixtures, names: {"Prefix": names["alloc"][:8], "Context": "allocs"},
    "search_bad_context": {"Prefix": "x", "Context": "zz"},
    "search_fuzzy": {"Text": "cf-", "Context": "all"},
    "search_fuzzy_short": {"Text": "c", "Context": "all"},
    "search_jobs": {"Prefix": "cf-", "Context": "jobs"},
    "unknown_namespace_register": _job(small_job("zz-n", Namespace="zz-none")),
    "var_lock_acquire": {"Items": {"a": "b"}, "Lock": {"TTL": "15s", "LockDelay": "1s"}},
    "var_put": {"Items": {"k": "v"}},
    "var_put_bad_path": {"Items": {"k": "v"}},
    "var_put_cas_conflict": {"Items": {"k": "w"}},
    "var_put_mismatch": {"Path": "cf/other", "Items": {"a": "b"}},
    "var_put_no_items": {},
    "volume_host_create_bad": {"Volume": {}},
}
OTHER_STATUS = {
    # Nomad answers 500; a path that leads out is refused, and nothing is wrong with the server.
    "alloc_fs_escape": 403,
}
ONLY_OF_JOB = ("node_allocations",)
"""Lists of which the recorded elements were all of one job."""
VARIABLE_BEFORE = {"var_delete_cas": {"a": "b"}}
"""Items of the variable when the request was recorded, where they were not the usual ones."""
PREPARE_OWN_TWICE = ("job_revert", "job_revert_enforce")


def answer_differences(name: str, check: Mapping[str, Any], fixtures: Fixtures) -> list[str]:
    """Sends the request of a check; returns a line per place where its answer differs."""
    method, _, template = check["request"].partition(" ")
    names = dict(fixtures.names)
    path = re.sub(r"\{(\w+)\}", lambda found: _named(found[1], fixtures, names), template)
    if name.startswith("job_scale_bounds"):
        path = path.replace(names["own"], names["job"])
    if name == "job_scale":
        fixtures.deployment(names["own"], "successful")
    if name in PREPARE_OWN_TWICE:
        fixtures.rig.register(small_job(names["own"], kind="service", command="exec sleep 999"))
    if name.startswith("var"):
        items = VARIABLE_BEFORE.get(name, {"k": "v"})
        fixtures.rig.http.put(f"/v1/var/{names['varp']}", json={"Items": items})
    fixtures.settle()
    answer = fixtures.rig.http.request(method, path, **_content(name, fixtures, names))
    return [*_differences(name, check, answer, names["job"])]


def _differences(
    name: str, check: Mapping[str, Any], answer: httpx.Response, job_id: str
) -> list[str]:
    wanted = OTHER_STATUS.get(name, check["status"])
    statuses = wanted if isinstance(wanted, list) else [wanted]
    if answer.status_code not in statuses:
        return [f"status {wanted} expected, got {answer.status_code}: {answer.text[:300]}"]
    found = _of_headers(check["headers"], answer.headers)
    if "shape" in check:
        value = answer.json()
        if name in ONLY_OF_JOB:
            value = [each for each in value if each["JobID"] == job_id]
        found += [
            line
            for line in mismatches(check["shape"], value)
            if not any(part in line for part in KNOWN_DIFFERENCES)
        ]
    return found


def _named(name: str, fixtures: Fixtures, names: dict[str, str]) -> str:
    make = {
        "own": fixtures.own_job,
        "ownalloc": fixtures.own_alloc,
        "owndep": fixtures.own_deployment,
        "blkeval": fixtures.blocked_evaluation,
    }
    if name in make and name not in names:
        names[name] = make[name]()
    return names[name]


def _content(name: str, fixtures: Fixtures, names: dict[str, str]) -> dict[str, Any]:
    body = BODIES.get(name)
    if callable(body):
        body = body(fixtures, names)
    if isinstance(body, bytes):
        return {"content": body}
    return {} if body is None else {"json": body}


def _of_headers(wanted: Mapping[str, str], found: httpx.Headers) -> list[str]:
    missing = [
        f"header {each}: missing"
        for each in wanted
        if each not in ("vary", "cache-control") and each not in found
    ]
    types = [headers.get("content-type", "").partition(";")[0] for headers in (wanted, found)]
    if types[0] and types[0] != types[1]:
        missing.append(f"header content-type: {types[0]!r} expected, got {types[1]!r}")
    return missing
