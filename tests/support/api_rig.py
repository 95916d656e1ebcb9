"""What tests ask of a server's API again and again, wherever it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx


class ApiRig:
    """`http` is a client of the API."""

    http: httpx.Client

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def wait_for(self, path: str, reached: Callable[[Any], bool], timeout_s: float = 60.0) -> Any:
        """Read `path` with blocking queries until `reached(answer)`."""
        index, client = 0, self.http
        deadline_s = time.monotonic() + timeout_s
        while True:
            answer = client.get(path, params={"index": index, "wait": "1s"})
            value = answer.json() if answer.status_code == 200 else None
            if value is not None and reached(value):
                return value
            if time.monotonic() > deadline_s:
                raise AssertionError(f"{path} never got there: {answer.status_code} {answer.text}")
            index = int(answer.headers.get("x-nomad-index", 0))

    def wait_ready_node(self) -> str:
        nodes = self.wait_for(
            "/v1/nodes", lambda found: any(each["Status"] == "ready" for each in found)
        )
        return str(nodes[0]["ID"])

    def register(self, job: dict[str, Any], **fields: Any) -> dict[str, Any]:
        answer = self.http.put("/v1/jobs", json={"Job": job, **fields})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())
