"""Traces of rollouts: sent to a collector on loopback, built from the state, nothing when off."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from orchgit.gitops.config import GitopsConfig
from orchgit.model.source import Source
from orchgit.server.tracing import TraceSettings
from tests.support.git_repos import WorkTree
from tests.support.server_rig import server_rig

JOB = """job "traced" {
  update {
    min_healthy_time = "0s"
  }

  group "web" {
    task "main" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["300"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
"""


class Collector:
    """A collector of OTLP over HTTP."""

    def __init__(self) -> None:
        self.requests: Queue[tuple[dict[str, str], ExportTraceServiceRequest]] = Queue()
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                assert self.path == "/v1/traces"
                headers = {name.lower(): value for name, value in self.headers.items()}
                requests.put((headers, ExportTraceServiceRequest.FromString(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.close()


def test_rollout_is_sent_as_one_trace_from_its_commit_to_its_running_task(
    tmp_path: Path, collector: Collector
) -> None:
    work = WorkTree(tmp_path / "repo")
    commit = work.commit({"traced.nomad.hcl": JOB})
    settings = TraceSettings(collector.url, {"x-team": "a"})
    with server_rig(
        tmp_path / "data",
        gitops=GitopsConfig(local_paths=(str(tmp_path),)),
        sources=(Source(name="demo", kind="local", url=str(work.path)),),
        traces=settings,
    ) as rig:
        rig.wait_ready_node()
        headers, request = collector.requests.get(timeout=60)
        rollout = rig.http.get("/v1/gitops/rollouts").json()[0]
    assert headers["x-team"] == "a"
    [resources] = request.resource_spans
    service = {each.key: each.value.string_value for each in resources.resource.attributes}
    assert service["service.name"] == "orchgit"
    [scope] = resources.scope_spans
    spans = {span.name: span for span in scope.spans}
    root, job = spans["rollout demo"], spans["job traced"]
    allocation, task = spans["allocation traced.web[0]"], spans["start task main"]
    assert {span.trace_id.hex() for span in scope.spans} == {rollout["ID"].replace("-", "")}
    assert attributes(root)["vcs.ref.head.revision"] == commit
    assert attributes(root)["orchgit.status"] == "healthy"
    assert (root.parent_span_id, job.parent_span_id) == (b"", root.span_id)
    assert spans["evaluation"].parent_span_id == job.span_id
    assert allocation.parent_span_id == job.span_id
    assert task.parent_span_id == allocation.span_id
    assert {span.status.code for span in scope.spans} == {Status.STATUS_CODE_OK}
    for span in scope.spans:
        assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
    assert job.end_time_unix_nano >= task.end_time_unix_nano > allocation.start_time_unix_nano


def attributes(span: Span) -> dict[str, str]:
    return {each.key: each.value.string_value for each in span.attributes}


def test_nothing_of_the_library_is_imported_without_the_setting() -> None:
    code = (
        "import sys, orchgit.server.server, orchgit.configuration.file\n"
        "print(sorted(name for name in sys.modules if name.startswith('opentelemetry')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
