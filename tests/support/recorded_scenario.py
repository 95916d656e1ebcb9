"""The state that recorded answers were read from, made on a server at an address."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import httpx

from tests.support.polling import until_blocking

_LABEL = re.compile(r"<([a-z]+(?::[^<>]+)?)>")
_LISTS = {
    "alloc": "/v1/allocations?namespace=*",
    "eval": "/v1/evaluations?namespace=*",
    "deployment": "/v1/deployments?namespace=*",
}
_VOLUMES = "/v1/volumes?type=host&namespace=*"
MISSING_ID = "00000000-1111-2222-3333-444444444444"
_STREAM = re.compile(r"/event/stream|/agent/monitor")
"""Answers without an end: their first line is looked at."""
_STALE_INDEX = 1
_QUICK_NS = 1_000_000_000
MANY_TIMES = re.compile(r"(\d+) times (.)")


class RecordedScenario:
    """`labels` are what the masked ids of the recorded requests stand for."""

    def __init__(self, http: httpx.Client, directory: str = "/tmp") -> None:
        self.http = http
        self.labels = {"uuid": MISSING_ID, "dir": directory}
        self._quick: set[str] = set()
        """Jobs whose deployments were over when the answers were recorded."""
        self.labels["node"] = until_blocking(self._ready_node, problem="no node is ready")

    def _ready_node(self) -> str | None:
        found = self.http.get("/v1/nodes").json()
        return next((str(each["ID"]) for each in found if each["Status"] == "ready"), None)

    def send(self, step: Mapping[str, Any]) -> httpx.Response:
        """Sends a recorded request; its answer may name what later requests mean."""
        request = step["request"]
        body, content = request.get("body"), {}
        if isinstance(body, str):
            content = {"content": body.encode()}
        elif body is not None:
            content = {"json": self._filled(body)}
            self._learn_job(body)
        with self.http.stream(
            request["method"],
            self._filled(request["path"]),
            headers=request.get("headers"),
            **content,
        ) as answer:
            if _STREAM.search(request["path"]) and answer.status_code == 200:
                first = next(answer.iter_raw(), b"").splitlines()
                answer = httpx.Response(
                    200, headers=answer.headers, content=first[0] if first else b""
                )
            else:
                answer.read()
        self._learn_answer(step["response"].get("json"), answer)
        return answer

    def _learn_job(self, body: Any) -> None:
        job = body.get("Job") if isinstance(body, dict) else None
        if isinstance(job, dict):
            groups = job.get("TaskGroups") or ()
            updates = [job.get("Update"), *(group.get("Update") for group in groups)]
            times = [
                each["MinHealthyTime"] for each in updates if each and "MinHealthyTime" in each
            ]
            if times and min(times) < _QUICK_NS:
                self._quick.add(str(job.get("ID")))

    def _learn_answer(self, wanted: Any, answer: httpx.Response) -> None:
        """An id that an answer gives first: of a lock, of a token."""
        try:
            value = answer.json()
        except ValueError:
            return
        if isinstance(value, dict) and "ModifyIndex" in value:
            self.labels["index"] = str(value["ModifyIndex"])
        self._learn_value(wanted, value)

    def _learn_value(self, wanted: Any, found: Any) -> None:
        if isinstance(wanted, dict) and isinstance(found, dict):
            for key, value in wanted.items():
                self._learn_value(value, found.get(key))
        elif isinstance(wanted, str) and isinstance(found, str):
            label = _LABEL.fullmatch(wanted)
            if label and label[1] in ("lock", "onetime", "scaling"):
                self.labels[label[1]] = found

    def settle(self, deployments: bool = True, timeout_s: float = 15.0) -> None:
        """Waits until everything that was registered runs, or waits for what never comes.

        A server of another behaviour may never come to rest; its answers are compared all the same.
        """
        with contextlib.suppress(AssertionError):
            until_blocking(
                lambda: self._is_settled(deployments),
                timeout_s,
                "the scenario settles",
                every_s=0.1,
            )
        self.learn()

    def _is_settled(self, with_deployments: bool) -> bool:
        evaluations = self.http.get(_LISTS["eval"]).json()
        allocations = self.http.get(_LISTS["alloc"]).json()
        deployments = self.http.get(_LISTS["deployment"]).json() if with_deployments else []
        return (
            all(each["Status"] != "pending" or "WaitUntil" in each for each in evaluations)
            and all(
                each["ClientStatus"] != "pending"
                and (each["DesiredStatus"] == "run" or each["ClientStatus"] != "running")
                for each in allocations
            )
            and all(self._is_at_rest(each) for each in deployments if each["JobID"] in self._quick)
        )

    @staticmethod
    def _is_at_rest(deployment: Mapping[str, Any]) -> bool:
        groups = deployment["TaskGroups"] or {}
        waits_for_promotion = any(
            group["DesiredCanaries"] > 0
            and not group["Promoted"]
            and group["HealthyAllocs"] >= group["DesiredCanaries"]
            for group in groups.values()
        )
        waits_for_room = any(
            group["PlacedAllocs"] < group["DesiredTotal"] == group["PlacedAllocs"] + 1
            for group in groups.values()
        )
        at_rest = waits_for_promotion or waits_for_room
        return deployment["Status"] != "running" or at_rest

    def wait_until_drain_began(self) -> None:
        """Waits until every service that runs has an allocation that is to move, as in the
        recording."""
        with contextlib.suppress(AssertionError):
            until_blocking(self._drain_began, 15.0, "the drain begins", every_s=0.02)

    def _drain_began(self) -> bool:
        services = [
            each for each in self.http.get(_LISTS["alloc"]).json() if each["JobType"] == "service"
        ]
        running = {each["JobID"] for each in services if each["ClientStatus"] == "running"}
        moving = {each["JobID"] for each in services if each["DesiredTransition"]["Migrate"]}
        return running <= moving

    def learn(self) -> None:
        """Learns what the labels stand for now: evaluations come and go."""
        for kind, path in _LISTS.items():
            self._learn_list(kind, self.http.get(path).json())
        for volume in self.http.get(_VOLUMES).json():
            self.labels[f"volume:{volume['Name']}"] = volume["ID"]
        for policy in self.http.get("/v1/scaling/policies?namespace=*").json():
            self.labels["scaling"] = policy["ID"]

    def _learn_list(self, kind: str, found: Iterable[Mapping[str, Any]]) -> None:
        counts: dict[str, int] = {}
        for each in sorted(found, key=lambda each: int(each["CreateIndex"])):
            job = each["JobID"]
            self.labels[f"{kind}:{job}.{counts.get(job, 0)}"] = each["ID"]
            counts[job] = counts.get(job, 0) + 1
            if kind == "eval":
                self.labels[f"eval:{each['Status']}:{job}"] = each["ID"]

    def missing_labels(self, step: Mapping[str, Any]) -> list[str]:
        path = self._filled(step["request"]["path"])
        return [each[0] for each in _LABEL.finditer(path)]

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            if value == "<index>":
                return int(self.labels.get("index", _STALE_INDEX))
            if many := MANY_TIMES.fullmatch(value):
                return many[2] * int(many[1])
            return _LABEL.sub(lambda found: self.labels.get(found[1], found[0]), value)
        if isinstance(value, dict):
            return {key: self._filled(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._filled(each) for each in value]
        return value
