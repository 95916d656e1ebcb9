"""The OpenAPI 3.1 document of the API, made from the route table, the structs and the access table.

It is made when somebody asks for it: a server starts without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from orchgit import __version__
from orchgit.api.access.table import TABLE
from orchgit.api.query_parameters import OF_ALL, OF_ENDPOINT, OF_READS, Parameter
from orchgit.api.routing import Endpoint
from orchgit.api.shapes.stubs import AllocationWithJob, AllocStub, JobStub, NodeStub
from orchgit.model.base import Model
from orchgit.model.deployment import Deployment
from orchgit.model.drift import JobDrift
from orchgit.model.evaluation import Evaluation
from orchgit.model.job import Job, JobSubmission
from orchgit.model.node import Namespace, Node, NodePool
from orchgit.model.operator import SchedulerConfig
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source
from orchgit.model.volume import HostVolume, TaskGroupVolumeClaim

VERSION = "3.1.0"
_PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
_OF_OTHER_AGENTS = "/v1/client/allocation/{alloc_id}/snapshot"
_REF = "#/components/schemas/{name}"
_NULL = {"type": "null"}

LISTS: Mapping[str, type[Model]] = {
    "/v1/jobs": JobStub,
    "/v1/allocations": AllocStub,
    "/v1/evaluations": Evaluation,
    "/v1/deployments": Deployment,
    "/v1/nodes": NodeStub,
    "/v1/node/pools": NodePool,
    "/v1/node/pool/{name}/jobs": JobStub,
    "/v1/node/pool/{name}/nodes": NodeStub,
    "/v1/node/{node_id}/allocations": AllocationWithJob,
    "/v1/namespaces": Namespace,
    "/v1/volumes/claims": TaskGroupVolumeClaim,
    "/v1/job/{job_id:path}/allocations": AllocStub,
    "/v1/job/{job_id:path}/evaluations": Evaluation,
    "/v1/job/{job_id:path}/deployments": Deployment,
    "/v1/evaluation/{eval_id}/allocations": AllocStub,
    "/v1/deployment/allocations/{id}": AllocStub,
    "/v1/gitops/drift": JobDrift,
}
"""What a GET of these paths answers a list of."""
OBJECTS: Mapping[str, type[Model]] = {
    "/v1/job/{job_id:path}": Job,
    "/v1/job/{job_id:path}/submission": JobSubmission,
    "/v1/job/{job_id:path}/deployment": Deployment,
    "/v1/allocation/{alloc_id}": AllocationWithJob,
    "/v1/evaluation/{eval_id}": Evaluation,
    "/v1/deployment/{id}": Deployment,
    "/v1/node/{node_id}": Node,
    "/v1/node/pool/{name}": NodePool,
    "/v1/namespace/{name}": Namespace,
    "/v1/volume/host/{volume_id}": HostVolume,
    "/v1/gitops/rollout/{rollout_id}": Rollout,
}
"""What a GET of these paths answers."""
_JOB_BODY = {"Job": Job}
BODIES: Mapping[str, type[Model] | Mapping[str, type[Model]]] = {
    "/v1/jobs": _JOB_BODY,
    "/v1/job/{job_id:path}": _JOB_BODY,
    "/v1/job/{job_id:path}/plan": _JOB_BODY,
    "/v1/validate/job": _JOB_BODY,
    "/v1/node/pools": NodePool,
    "/v1/node/pool/{name}": NodePool,
    "/v1/namespace": Namespace,
    "/v1/namespace/{name}": Namespace,
    "/v1/volume/host/create": {"Volume": HostVolume},
    "/v1/volume/host/register": {"Volume": HostVolume},
    "/v1/operator/scheduler/configuration": SchedulerConfig,
    "/v1/gitops/source/{name}": Source,
}
"""What a PUT of these paths sends: a struct, or an object with structs."""
_NOT_JSON: Mapping[str, str] = {
    "/v1/agent/monitor": "text/plain",
    "/v1/agent/pprof/{profile}": "text/plain",
    "/v1/event/stream": "application/x-ndjson",
    "/v1/operator/snapshot": "application/x-gzip",
    "/v1/gitops/drift/patch": "text/plain",
    **{
        f"/v1/client/fs/{name}/{{alloc_id}}": "text/plain"
        for name in ("cat", "readat", "stream", "logs")
    },
}


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Returns the document; its size is bounded by the route table and the structs."""
    schemas = _schemas()
    paths: dict[str, dict[str, Any]] = {}
    for path, methods in (*((each.path, each.methods) for each in endpoints), *_of_agents()):
        operations = paths.setdefault(_PARAMETER.sub(r"{\1}", path), {})
        for method in methods:
            if method not in ("HEAD", "POST"):
                operations[method.lower()] = _operation(path, method)
        if "PUT" in methods:
            operations["post"] = _operation(path, "POST")
    return {
        "openapi": VERSION,
        "info": {
            "title": "orchgit",
            "version": __version__,
            "description": "Nomad's HTTP API, and /v1/gitops. Errors are plain text.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "X-Nomad-Token"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"token": []}, {"bearer": []}, {}],
    }


def _of_agents() -> Iterator[tuple[str, list[str]]]:
    """Yields the paths that agents of nodes answer, with their methods."""
    for path in TABLE.paths:
        if path.startswith("/v1/client/") and path != _OF_OTHER_AGENTS:
            yield path, [each for each in ("GET", "PUT", "DELETE") if TABLE.rule(path, each)]


def _operation(path: str, method: str) -> dict[str, Any]:
    name = _PARAMETER.sub(r"by_\1", path.removeprefix("/v1")).strip("/.")
    is_read = method == "GET"
    own = OF_ENDPOINT.get((path, "PUT" if method == "POST" else method), ())
    query = {each.name: each for each in (*OF_ALL, *(OF_READS if is_read else ()), *own)}
    operation: dict[str, Any] = {
        "operationId": f"{method.lower()}_{re.sub(r'[^A-Za-z0-9]+', '_', name)}",
        "tags": [_tag(path)],
        "parameters": [*_path_parameters(path), *_query_parameters(query.values())],
        "responses": {
            "200": {"description": "done", "content": _content(path, method)},
            "default": {
                "description": "refused: the reason as text",
                "content": {"text/plain": {"schema": {"type": "string"}}},
            },
        },
    }
    if not is_read and method != "DELETE":
        operation["requestBody"] = {
            "content": {"application/json": {"schema": _body(path)}},
        }
    return operation


def _tag(path: str) -> str:
    parts = [part for part in path.split("/") if part and not part.startswith("{")]
    return parts[1] if len(parts) > 1 else parts[0]


def _path_parameters(path: str) -> Iterator[dict[str, Any]]:
    for found in _PARAMETER.finditer(path):
        yield {
            "name": found[1],
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1},
        }


def _query_parameters(known: Iterable[Parameter]) -> Iterator[dict[str, Any]]:
    for name, kind, meaning in known:
        yield {"name": name, "in": "query", "description": meaning, "schema": {"type": kind}}


def _content(path: str, method: str) -> dict[str, Any]:
    if method == "GET" and path in _NOT_JSON:
        return {_NOT_JSON[path]: {"schema": {"type": "string"}}}
    schema: dict[str, Any] = {}
    if method == "GET" and path in LISTS:
        schema = {"type": "array", "items": _reference(LISTS[path])}
    elif method == "GET" and path in OBJECTS:
        schema = {"anyOf": [_reference(OBJECTS[path]), _NULL]}
    return {"application/json": {"schema": schema}}


def _body(path: str) -> dict[str, Any]:
    body = BODIES.get(path)
    if body is None:
        return {"type": "object"}
    if isinstance(body, Mapping):
        properties = {name: _reference(kind) for name, kind in body.items()}
        return {"type": "object", "properties": properties, "required": list(body)}
    return _reference(body)


def _reference(kind: type[Model]) -> dict[str, Any]:
    return {"$ref": _REF.format(name=kind.__name__)}


def _schemas() -> dict[str, Any]:
    kinds: set[type[Model]] = {*LISTS.values(), *OBJECTS.values()}
    for body in BODIES.values():
        kinds.update(body.values() if isinstance(body, Mapping) else (body,))
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    _, components = msgspec.json.schema_components(
        ordered, schema_hook=lambda kind: {"description": "any value"}, ref_template=_REF
    )
    return {name: _as_sent(schema) for name, schema in sorted(components.items())}


def _as_sent(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a struct as answers hold it: Nomad leaves out or writes null for what
    is not set, and clients may leave out anything."""
    if "properties" not in schema:
        return schema
    properties = {
        name: {"anyOf": [_without_default(each), _NULL]}
        for name, each in schema["properties"].items()
    }
    return {"title": schema.get("title"), "type": "object", "properties": properties}


def _without_default(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in schema.items() if name != "default"}
