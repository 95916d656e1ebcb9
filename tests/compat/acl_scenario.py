"""The cluster that the authorization matrix was recorded from, made over HTTP."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from orchgit.clock import SECOND_NS
from orchgit.services.acl.settings import AclSettings
from tests.compat.acl_matrix import Matrix
from tests.support.polling import until_blocking
from tests.support.server_rig import ServerRig

ZERO = "00000000-0000-4000-8000-000000000000"
BOGUS = {
    "anonymous": "",
    "bogus-uuid": "11111111-2222-4333-8444-555555555555",
    "bogus-text": "not-a-token",
    "bogus-jwt": "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
}
NAMESPACES = {"default": "", "other": "o", "glob-a": "g"}
"""With what the labels of each one's objects end."""
VARIABLES = ("a/one", "b/two", "nomad/jobs/run", "nomad/jobs/done/g")
ROLES = {
    "role:ns-default-read": ("ns:default:read",),
    "role:node-read+agent-read": ("node:read", "agent:read"),
}
"""Tokens whose policies are those of a role."""
_EXPIRES_S = 1
_RESOURCES = {"CPU": 20, "MemoryMB": 16}
_TOKEN_LINE = "token="


@contextlib.contextmanager
def acl_rig(data_dir: Path, agent_config: Mapping[str, Any] | None = None) -> Iterator[ServerRig]:
    """A server and a node with access control on; its client sends the first management token."""
    settings = AclSettings(enabled=True, token_min_expiration_ttl_ns=SECOND_NS)
    rig = ServerRig(data_dir, agent_config=agent_config, acl=settings)
    rig.start()
    try:
        answer = rig.http.put("/v1/acl/bootstrap")
        assert answer.status_code == 200, answer.text
        rig.http.headers["X-Nomad-Token"] = answer.json()["SecretID"]
        yield rig
    finally:
        rig.stop()


class AclScenario:
    """`secrets` are those of the matrix's tokens, `labels` what stands for `{x}` in its paths.

    `http` is a client that sends a management token.
    """

    def __init__(self, http: httpx.Client, matrix: Matrix) -> None:
        self.http = http
        self.labels = {"zero": ZERO}
        self.secrets = {**BOGUS, "management": http.headers["X-Nomad-Token"]}
        self._make_cluster()
        self._make_tokens(matrix)
        self._learn()

    # -- what is there -----------------------------------------------------------------------------

    def _make_cluster(self) -> None:
        self.labels["node"] = self._wait("/v1/nodes", _ready)[0]["ID"]
        for pool in ("p1", "p2"):
            self._send("PUT", "/v1/node/pools", {"Name": pool})
        for namespace, suffix in NAMESPACES.items():
            if suffix:
                body = {"Name": namespace, "Description": namespace}
                self._send("PUT", "/v1/namespace", body)
            self._fill(namespace, suffix)

    def _fill(self, namespace: str, suffix: str) -> None:
        for path in VARIABLES:
            body = {"Items": {"k": "v"}}
            self._send("PUT", f"/v1/var/{path}?namespace={namespace}", body)
        volume = {
            "Name": f"vol{suffix}",
            "Namespace": namespace,
            "PluginID": "mkdir",
            "NodeID": self.labels["node"],
            "RequestedCapabilities": [
                {"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}
            ],
        }
        answer = self._send("PUT", "/v1/volume/host/create", {"Volume": volume})
        self.labels[f"vol{suffix}"] = answer["Volume"]["ID"]
        for job in _jobs(namespace, f"svc{suffix}"):
            self._send("PUT", "/v1/jobs", {"Job": job})

    def _make_tokens(self, matrix: Matrix) -> None:
        names = {token: f"p{place}" for place, token in enumerate(matrix.policies)}
        for token, rules in matrix.policies.items():
            self._send(
                "PUT", f"/v1/acl/policy/{names[token]}", {"Name": names[token], "Rules": rules}
            )
            self.secrets[token] = self._token(token, Policies=[names[token]])
        self.labels["pdef"] = names.get("ns:default:read", "nosuch")
        for token, granted in ROLES.items():
            if token in matrix.tokens:
                self.secrets[token] = self._with_role(token, [names[each] for each in granted])
        self.secrets["client:nothing"] = self._token("client:nothing", Policies=["absent"])
        self.secrets["expired"] = self._token("expired", ExpirationTTL=f"{_EXPIRES_S}s")
        self._expired_accessor = self.labels["tok"]
        self._expired_at_s = time.monotonic() + _EXPIRES_S
        self._token("another")

    def _token(self, name: str, **fields: Any) -> str:
        body = {"Name": name, "Type": "client", "Policies": ["absent"], **fields}
        answer = self._send("PUT", "/v1/acl/token", body)
        self.labels["tok"] = answer["AccessorID"]
        return str(answer["SecretID"])

    def _with_role(self, name: str, policies: list[str]) -> str:
        body = {
            "Name": name.replace(":", "-").replace("+", "-"),
            "Policies": [{"Name": each} for each in policies],
        }
        role = self._send("PUT", "/v1/acl/role", body)
        return self._token(name, Policies=None, Roles=[{"ID": role["ID"]}])

    def _make_auth_method(self) -> None:
        method = {
            "Name": "jm",
            "Type": "JWT",
            "TokenLocality": "local",
            "MaxTokenTTL": "1h",
            "Config": {"JWTValidationPubKeys": [_PUBLIC_KEY], "BoundAudiences": ["a"]},
        }
        self._send("PUT", "/v1/acl/auth-method", method)
        rule = {"AuthMethod": "jm", "BindType": "policy", "BindName": "nosuch"}
        self.labels["br"] = self._send("PUT", "/v1/acl/binding-rule", rule)["ID"]

    # -- what became of it -------------------------------------------------------------------------

    def _learn(self) -> None:
        self._make_auth_method()
        self.labels["own"] = self._get("/v1/agent/servers")[0]
        for namespace, suffix in NAMESPACES.items():
            query = f"?namespace={namespace}"
            states = {"run": "running", "done": "complete"}
            for job, state in states.items():
                found = self._wait(f"/v1/job/{job}/allocations{query}", _with_status(state))
                self.labels[f"{job}{suffix}"] = found[0]["ID"]
            deployment = self._wait(
                f"/v1/job/run/deployment{query}",
                lambda found: found is not None and found["Status"] == "successful",
            )
            self.labels[f"dep{suffix}"] = deployment["ID"]
            self.labels[f"eval{suffix}"] = self._get(f"/v1/job/run/evaluations{query}")[-1]["ID"]
            self.labels[f"pol{suffix}"] = self._get(f"/v1/scaling/policies{query}")[0]["ID"]
        self.secrets["workload-identity"] = self._token_of_task()
        until_blocking(lambda: time.monotonic() > self._expired_at_s)

    def _token_of_task(self) -> str:
        """Returns the token that the task `t` of job `run` in `default` was given: it prints it."""
        log = self._until(
            f"/v1/client/fs/logs/{self.labels['run']}?task=t&type=stdout&plain=true",
            lambda answer: _TOKEN_LINE in answer.text,
        ).text
        return log.partition(_TOKEN_LINE)[2].split()[0]

    def collect_expired(self) -> None:
        """Deletes the expired token, as Nomad's garbage collection had when it was asked last."""
        self.http.delete(f"/v1/acl/token/{self._expired_accessor}")

    # -- requests ----------------------------------------------------------------------------------

    def filled(self, text: str) -> str:
        for label, value in self.labels.items():
            text = text.replace(f"{{{label}}}", value)
        return text

    def filled_body(self, body: Any) -> bytes:
        return b"" if body is None else self.filled(json.dumps(body)).encode()

    def _send(self, method: str, path: str, body: Any) -> Any:
        answer = self.http.request(method, path, json=body)
        assert answer.status_code == 200, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def _get(self, path: str) -> Any:
        return self._send("GET", path, None)

    def _wait(self, path: str, reached: Callable[[Any], bool]) -> Any:
        answer = self._until(
            path, lambda answer: answer.status_code == 200 and reached(answer.json())
        )
        return answer.json()

    def _until(self, path: str, reached: Callable[[httpx.Response], bool]) -> httpx.Response:
        answers: list[httpx.Response] = []

        def asked() -> bool:
            answers[:] = [self.http.get(path)]
            return reached(answers[0])

        until_blocking(asked, timeout_s=60.0, every_s=0.1)
        return answers[0]


def _ready(nodes: list[dict[str, Any]]) -> bool:
    return any(each["Status"] == "ready" for each in nodes)


def _with_status(status: str) -> Callable[[list[dict[str, Any]]], bool]:
    return lambda found: any(each["ClientStatus"] == status for each in found)


def _jobs(namespace: str, service: str) -> list[dict[str, Any]]:
    run = _job("run", namespace, "service", f'echo "{_TOKEN_LINE}$NOMAD_TOKEN"; sleep 3600')
    group = run["TaskGroups"][0]
    group["Services"] = [{"Name": service, "Provider": "nomad", "PortLabel": "8080"}]
    group["Scaling"] = {"Min": 0, "Max": 5, "Enabled": True, "Policy": {}}
    group["Tasks"][0]["Identity"] = {"Env": True}
    group["Tasks"][0]["Actions"] = [{"Name": "hello", "Command": "/bin/echo", "Args": ["hello"]}]
    run["Update"] = {"MaxParallel": 1, "MinHealthyTime": 0}
    param = _job("param", namespace, "batch", "true") | {
        "ParameterizedJob": {"Payload": "optional"}
    }
    periodic = {"Enabled": True, "Spec": "0 0 1 1 *", "SpecType": "cron"}
    per = _job("per", namespace, "batch", "true") | {"Periodic": periodic}
    return [run, _job("done", namespace, "batch", "echo done"), param, per]


def _job(name: str, namespace: str, kind: str, command: str) -> dict[str, Any]:
    task = {
        "Name": "t",
        "Driver": "raw_exec",
        "KillTimeout": 1_000_000_000,
        "Config": {"command": "/bin/sh", "args": ["-c", command]},
        "Resources": _RESOURCES,
    }
    return {
        "ID": name,
        "Name": name,
        "Namespace": namespace,
        "Type": kind,
        "Datacenters": ["*"],
        "TaskGroups": [{"Name": "g", "Count": 1, "Tasks": [task]}],
    }


_PUBLIC_KEY = """-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEciXuze62hS1BX7onjeZrsY/8Mkrz
D8aSZileqJec2mxo28XCm4V8agQc+tIbT7Yqz0v2FtQ5eagfL+i3qwElRQ==
-----END PUBLIC KEY-----
"""
