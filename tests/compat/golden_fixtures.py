"""The objects that the recorded requests name, made over the API of a real server and agent."""

from __future__ import annotations

import itertools
from typing import Any

from tests.support.api_rig import ApiRig

_numbers = itertools.count(1)


def service_job(job_id: str, **changes: Any) -> dict[str, Any]:
    """Much like the one the shapes were recorded with: a port, a service with a check, a template,
    an action, a scaling policy."""
    task = {
        "Name": "t",
        "Driver": "raw_exec",
        "Config": {
            "command": "/bin/sh",
            "args": ["-c", "echo content > local/f.txt; echo out; exec sleep 1000"],
        },
        "Env": {"A": "b"},
        "Actions": [{"Name": "hi", "Command": "/bin/echo", "Args": ["hi"]}],
        "Templates": [
            {"EmbeddedTmpl": "x", "DestPath": "local/t.txt", "ChangeMode": "noop"},
        ],
        "Resources": {"CPU": 50, "MemoryMB": 32},
    }
    group = {
        "Name": "g",
        "Count": 1,
        "Tasks": [task],
        "Networks": [{"DynamicPorts": [{"Label": "http"}]}],
        "Scaling": {"Min": 0, "Max": 5, "Enabled": True, "Policy": {"foo": "bar"}},
        "Services": [
            {
                "Name": job_id,
                "Provider": "nomad",
                "PortLabel": "http",
                "Tags": ["x"],
                "Checks": [
                    {
                        "Name": "c",
                        "Type": "tcp",
                        "Interval": 1_000_000_000,
                        "Timeout": 1_000_000_000,
                    }
                ],
            }
        ],
        "Update": {
            "HealthCheck": "task_states",
            "MinHealthyTime": 10_000_000,
            "HealthyDeadline": 5_000_000_000,
            "ProgressDeadline": 10_000_000_000,
        },
        **changes.pop("group", {}),
    }
    return {"ID": job_id, "Type": "service", "TaskGroups": [group], "Meta": {"m": "v"}, **changes}


def small_job(job_id: str, kind: str = "batch", command: str = "true", **fields: Any) -> Any:
    task = {
        "Name": "t",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sh", "args": ["-c", command]},
        "RestartPolicy": {"Attempts": 0, "Mode": "fail"},
        "Resources": {"CPU": 20, "MemoryMB": 16},
        "Env": {"A": "b"},
        "Actions": [{"Name": "hi", "Command": "/bin/echo", "Args": ["hi"]}],
        "Templates": [{"EmbeddedTmpl": "x", "DestPath": "local/t.txt", "ChangeMode": "noop"}],
    }
    group = {
        "Name": "g",
        "Count": 1,
        "Tasks": [task],
        "Networks": [{"DynamicPorts": [{"Label": "http"}]}],
        "RestartPolicy": {"Attempts": 0, "Mode": "fail"},
        "ReschedulePolicy": {"Attempts": 0, "Unlimited": False},
    }
    return {"ID": job_id, "Type": kind, "TaskGroups": [group], "Meta": {"m": "v"}, **fields}


class Fixtures:
    """`names` fills the placeholders of the recorded paths."""

    def __init__(self, rig: ApiRig) -> None:
        self.rig = rig
        self.names = {
            "uuid0": "00000000-0000-0000-0000-000000000000",
            "job": "cf-job",
            "batch": "cf-batch",
            "param": "cf-param",
            "periodic": "cf-periodic",
            "blkjob": "cf-blocked",
            "ns": "cf-ns",
            "pool": "cf-pool",
            "varp": "cf-var",
            "node": rig.wait_ready_node(),
        }
        self._make_jobs()
        self._make_others()

    def _make_jobs(self) -> None:
        rig, names = self.rig, self.names
        submission = {"Source": "job {}", "Format": "hcl2", "VariableFlags": {"x": "y"}}
        rig.register(service_job(names["job"]), Submission=submission)
        rig.register(small_job(names["batch"], command="echo err >&2; exit 3"))
        rig.register(
            small_job(
                names["param"], ParameterizedJob={"MetaRequired": ["m"], "MetaOptional": ["o"]}
            )
        )
        periodic = {"Spec": "0 0 1 1 *", "SpecType": "cron", "Enabled": True}
        rig.register(small_job(names["periodic"], Periodic=periodic))
        nowhere = [{"LTarget": "${node.class}", "RTarget": "nope", "Operand": "="}]
        blocked = rig.register(small_job(names["blkjob"], Constraints=nowhere))
        names["alloc"] = self.alloc(names["job"], "running")
        names["balloc"] = self.alloc(names["batch"], "failed")
        names["dep"] = self.deployment(names["job"], "successful")
        evals = rig.http.get(f"/v1/job/{names['job']}/evaluations").json()
        registered = [each for each in evals if each["TriggeredBy"] == "job-register"]
        names["eval"] = registered[0]["ID"]
        names["eval1"] = blocked["EvalID"]

    def _make_others(self) -> None:
        http, names = self.rig.http, self.names
        http.put(
            "/v1/namespace", json={"Name": names["ns"], "Description": "d", "Meta": {"k": "v"}}
        )
        http.put(f"/v1/var/{names['varp']}", json={"Items": {"k": "v"}})
        http.put("/v1/node/pools", json={"Name": names["pool"], "Meta": {"a": "b"}})
        volume = {"Name": "cf-vol", "NodeID": names["node"], "RequestedCapacityMinBytes": 1000}
        made = http.put("/v1/volume/host/create", json={"Volume": volume})
        assert made.status_code == 200, made.text
        names["volid"] = made.json()["Volume"]["ID"]
        policies = http.get("/v1/scaling/policies", params={"job": names["job"]}).json()
        names["policy"] = policies[0]["ID"]

    def blocked_evaluation(self) -> str:
        """The one that is blocked now; an earlier one may have been looked at again."""
        self.settle()
        found = self.rig.wait_for(
            f"/v1/job/{self.names['blkjob']}/evaluations",
            lambda evals: any(each["Status"] == "blocked" for each in evals),
        )
        return str(next(each["ID"] for each in found if each["Status"] == "blocked"))

    def settle(self) -> None:
        """Every evaluation is decided: what the recorded answers show is no passing state."""
        self.rig.wait_for(
            "/v1/evaluations", lambda found: all(each["Status"] != "pending" for each in found)
        )

    def alloc(self, job_id: str, status: str) -> str:
        found = self.rig.wait_for(
            f"/v1/job/{job_id}/allocations",
            lambda allocs: any(each["ClientStatus"] == status for each in allocs),
        )
        return str(next(each["ID"] for each in found if each["ClientStatus"] == status))

    def deployment(self, job_id: str, status: str) -> str:
        found = self.rig.wait_for(
            f"/v1/job/{job_id}/deployments",
            lambda found: any(each["Status"] == status for each in found),
        )
        return str(next(each["ID"] for each in found if each["Status"] == status))

    def own_job(self) -> str:
        """A job that one check may do anything to."""
        job_id = f"cf-own-{next(_numbers)}"
        job = small_job(job_id, kind="service", command="exec sleep 1000")
        fast = {"MinHealthyTime": 1_000_000, "HealthCheck": "task_states"}
        job["TaskGroups"][0]["Update"] = fast
        self.rig.register(job)
        return job_id

    def own_alloc(self) -> str:
        return self.alloc(self.own_job(), "running")

    def own_deployment(self) -> str:
        """One that stays active: its allocation is healthy only after a minute."""
        job_id = f"cf-own-{next(_numbers)}"
        slow = {"MinHealthyTime": 60_000_000_000, "HealthCheck": "task_states"}
        job = small_job(job_id, kind="service", command="exec sleep 1000")
        job["TaskGroups"][0]["Update"] = slow
        self.rig.register(job)
        return self.deployment(job_id, "running")
