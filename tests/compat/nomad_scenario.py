"""The state that the recorded answers were read from, made on a real server and agent."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from agent.config import HostVolumeConfig
from tests.support.server_rig import ServerRig

_LABEL = re.compile(r"<([a-z]+(?::[^<>]+)?)>")
_LISTS = {
    "alloc": "/v1/allocations",
    "eval": "/v1/evaluations",
    "deployment": "/v1/deployments",
}
MISSING_ID = "00000000-1111-2222-3333-444444444444"


def agent_config(directory: Path) -> dict[str, Any]:
    """The node of the recordings: its meta, and a static host volume."""
    volume = directory / "hv1"
    volume.mkdir()
    return {
        "meta": {"rack": "r1", "zone": "a"},
        "host_volumes": {"hv1": HostVolumeConfig(path=str(volume))},
    }


class NomadScenario:
    """`labels` are what the masked ids of the recorded requests stand for."""

    def __init__(self, rig: ServerRig, writes: list[dict[str, Any]]) -> None:
        self.rig = rig
        self.labels = {"node": rig.wait_ready_node(), "uuid": MISSING_ID}
        for step in writes:
            answer = self.send(step)
            assert answer.status_code == step["status"], f"{step['name']}: {answer.text}"
        self._settle()
        self.learn()

    def send(self, step: dict[str, Any]) -> httpx.Response:
        request = step["request"]
        body = request.get("body")
        content = {"json": self._filled(body)} if body is not None else {}
        path = self._filled(request["path"])
        assert not _LABEL.search(path), f"nothing is known that {path} names"
        return self.rig.http.request(request["method"], path, **content)

    def _settle(self) -> None:
        """Everything has run, or waits for what never comes."""
        self._until("web", lambda found: found["ClientStatus"] == "running")
        self._until("sticky", lambda found: found["ClientStatus"] == "running")
        self._until("done", lambda found: found["ClientStatus"] == "complete")
        self._until("fail", lambda found: bool(found["FollowupEvalID"]))
        self.rig.wait_for(
            "/v1/job/web/deployments", lambda found: found[0]["Status"] == "successful"
        )
        self.rig.wait_for(
            "/v1/evaluations",
            lambda found: all(each["Status"] != "pending" or "WaitUntil" in each for each in found),
        )

    def _until(self, job_id: str, reached: Callable[[dict[str, Any]], bool]) -> None:
        path = f"/v1/job/{job_id}/allocations"
        self.rig.wait_for(path, lambda found: any(reached(each) for each in found))

    def learn(self) -> None:
        """What the labels stand for now: evaluations come and go."""
        for kind, path in _LISTS.items():
            found = self.rig.http.get(path).json()
            self._learn_list(kind, found)
            if kind == "eval":
                self._learn_delayed(found)
        for volume in self.rig.http.get("/v1/volumes", params={"type": "host"}).json():
            self.labels[f"volume:{volume['Name']}"] = volume["ID"]
        for policy in self.rig.http.get("/v1/scaling/policies").json():
            self.labels["scaling"] = policy["ID"]

    def _learn_list(self, kind: str, found: list[dict[str, Any]]) -> None:
        counts: dict[str, int] = {}
        for each in sorted(found, key=lambda each: int(each["CreateIndex"])):
            job = each["JobID"]
            self.labels[f"{kind}:{job}.{counts.get(job, 0)}"] = each["ID"]
            counts[job] = counts.get(job, 0) + 1
            if kind == "eval":
                self.labels[f"eval:{each['Status']}:{job}"] = each["ID"]

    def _learn_delayed(self, evaluations: list[dict[str, Any]]) -> None:
        """The first delayed evaluation of `fail` and the one that made it. On a slow machine the
        failure may be told in two reports, with an evaluation for each."""
        delayed = [
            each
            for each in sorted(evaluations, key=lambda each: int(each["CreateIndex"]))
            if each["JobID"] == "fail" and each["TriggeredBy"] == "alloc-reschedule"
        ]
        if delayed:
            self.labels["eval:fail.1"] = delayed[0]["PreviousEval"]
            self.labels["eval:fail.2"] = delayed[0]["ID"]

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return _LABEL.sub(lambda found: self.labels.get(found[1], found[0]), value)
        if isinstance(value, dict):
            return {key: self._filled(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        return value
