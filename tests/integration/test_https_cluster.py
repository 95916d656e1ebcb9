"""Three servers and an agent that speak nothing but TLS, as processes, and their users."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from orchgit.cli.main import cli
from tests.support.joining_servers import JoiningServer
from tests.support.polling import until_blocking
from tests.support.secure_cluster import Office, Papers, SecureCluster, secure_cluster
from tests.support.websocket import websocket

JOB = """
job "talk" {
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo said; exec sleep 1000"]
      }
    }
  }
}
"""


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Office:
    return Office(tmp_path_factory.mktemp("office") / "ours")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, office: Office) -> Iterator[SecureCluster]:
    """With a source `site` and the job that was pushed to it, which runs on the agent."""
    with secure_cluster(tmp_path_factory.mktemp("secure"), office) as found:
        for one in [*found.servers, found.agent]:
            one.start()
        found.servers[0].wait_for_peers(s1=True, s2=True, s3=True)
        until_blocking(
            lambda: [each["Status"] for each in listed(found, "/v1/nodes")] == ["ready"] or None
        )
        yield found
        follower(found).http.delete("/v1/job/talk", params={"purge": "true"})
        until_blocking(lambda: not running(found) or None)
        assert found.agent.end() == 0


@pytest.fixture(scope="module")
def alloc_id(cluster: SecureCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    push(cluster, tmp_path_factory.mktemp("clone"))
    (alloc,) = until_blocking(lambda: running(cluster))
    return str(alloc["ID"])


def listed(cluster: SecureCluster, path: str) -> list[dict[str, Any]]:
    answer = cluster.servers[0].http.get(path)
    return list(answer.json()) if answer.status_code == 200 else []


def running(cluster: SecureCluster) -> list[dict[str, Any]]:
    found = listed(cluster, "/v1/allocations")
    return [each for each in found if each["ClientStatus"] == "running"]


def follower(cluster: SecureCluster) -> JoiningServer:
    leader = cluster.servers[0].http.get("/v1/status/leader").json()
    return next(one for one in cluster.servers if one.rpc != leader)


def push(cluster: SecureCluster, directory: Path) -> str:
    """Clone from a follower, add the job, push to the follower; what the push said."""
    server = follower(cluster)
    server.http.put("/v1/gitops/source/site", json={"Name": "site", "Kind": "builtin"})

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@localhost", *words],
            cwd=directory,
            env={**os.environ, **cluster.papers.git_environment(), "GIT_TERMINAL_PROMPT": "0"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    git("clone", "-q", f"{server.url}/git/site.git", ".")
    (directory / "talk.nomad.hcl").write_text(JOB)
    git("add", "-A")
    git("commit", "-q", "-m", "Talk")
    return git("push", "origin", "HEAD:main")


def run(url: str, environment: dict[str, str], *words: str) -> Result:
    empty = {
        f"{prefix}_{name}": ""
        for prefix in ("ORCHGIT", "NOMAD")
        for name in ("CACERT", "CAPATH", "CLIENT_CERT", "CLIENT_KEY", "SKIP_VERIFY")
    }
    return CliRunner().invoke(cli, [*words, "-address", url], env={**empty, **environment})


def refusal(url: str, environment: dict[str, str], *words: str) -> str:
    done = run(url, environment, "job", "status", *words)
    assert done.exception is not None, done.output
    return str(done.exception)


def test_every_server_answers_clients_with_a_certificate(cluster: SecureCluster) -> None:
    for one in cluster.servers:
        for environment in (cluster.papers.environment(), own_names(cluster.papers)):
            done = run(one.url, environment, "server", "members")
            assert done.output.count("alive") == 3, done.output
        found = one.http.get("/v1/agent/self").json()["config"]["TLSConfig"]
        assert found["EnableHTTP"]
        assert found["EnableRPC"]
        assert found["VerifyHTTPSClient"]


def own_names(papers: Papers) -> dict[str, str]:
    found = papers.environment()
    return {name.replace("NOMAD_", "ORCHGIT_"): value for name, value in found.items()}


def test_tls_options_equal_the_environment_variables(cluster: SecureCluster) -> None:
    papers, url = cluster.papers, cluster.servers[0].url
    own = ("-client-cert", str(papers.cert), "-client-key", str(papers.key))
    by_name = ("-ca-cert", str(papers.ca), "-tls-server-name", "server.global.orchgit")
    by_directory = ("-ca-path", str(papers.ca.parent / "authorities"))
    Path(by_directory[1]).mkdir(exist_ok=True)
    (Path(by_directory[1]) / "ours.pem").write_bytes(papers.ca.read_bytes())
    for trust in (by_name, by_directory, ("-tls-skip-verify",)):
        done = run(url, {}, "server", "members", *own, *trust)
        assert done.output.count("alive") == 3, (done.output, done.exception)


def test_clients_without_a_certificate_are_refused_with_the_reason(
    cluster: SecureCluster, tmp_path: Path
) -> None:
    other = Office(tmp_path / "other").issue("cli")
    papers = cluster.papers
    for one in (*cluster.servers, cluster.agent):
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(one.url, trust_env=False)
        answer = httpx.get(one.url, verify=papers.context(shown=False), trust_env=False)
        assert answer.status_code == 403
        assert "only those who show a certificate" in answer.text
        context = papers.context(shown=False)
        context.load_cert_chain(other.cert, other.key)
        with pytest.raises(httpx.TransportError):
            httpx.get(one.url, verify=context, trust_env=False)
        answer = httpx.get(f"http://{one.http_address}/v1/jobs", trust_env=False)
        assert (answer.status_code, "speaks HTTPS" in answer.text) == (400, True)


def test_command_line_names_the_remedy_for_each_tls_failure(
    cluster: SecureCluster, tmp_path: Path
) -> None:
    other, papers = Office(tmp_path / "other").issue("cli"), cluster.papers
    url = cluster.servers[0].url
    said = refusal(url, {})
    assert "not signed by an authority that this machine trusts; give -ca-cert or NOMAD" in said
    said = refusal(url, {"NOMAD_CACERT": str(other.ca)})
    assert f"not signed by the authority in {other.ca}; give another -ca-cert" in said
    said = refusal(url, papers.environment(shown=False))
    assert "give -client-cert and -client-key" in said
    theirs = {**other.environment(), "NOMAD_CACERT": str(papers.ca)}
    said = refusal(url, theirs)
    assert f"if it does not take the certificate {other.cert}" in said
    said = refusal(url, papers.environment(), "-tls-server-name", "web.example")
    assert "its certificate is not for web.example; use an address that is in it" in said
    assert "write https://" in refusal(url.replace("https", "http"), {})


def test_push_through_a_follower_deploys_its_job(
    cluster: SecureCluster, alloc_id: str, tmp_path: Path
) -> None:
    (node,) = listed(cluster, "/v1/nodes")
    found = cluster.servers[0].http.get(f"/v1/node/{node['ID']}").json()
    assert found["TLSEnabled"]
    assert found["HTTPAddr"] == cluster.agent.http_address
    with follower(cluster).http.stream("GET", "/v1/event/stream?index=1") as events:
        assert "Node" in next(line for line in events.iter_lines() if len(line) > 2)


def test_log_is_followed_through_a_follower(cluster: SecureCluster, alloc_id: str) -> None:
    command = cluster.command(follower(cluster), "alloc", "logs", "-f", alloc_id)
    try:
        assert command.stdout is not None
        assert command.stdout.readline() == "said\n"
    finally:
        command.terminate()  # not SIGINT, which a suite run in the background passes on as ignored
        command.communicate(timeout=20)


def test_command_is_run_through_every_server(cluster: SecureCluster, alloc_id: str) -> None:
    words = json.dumps(["/bin/sh", "-c", "read x; echo $x-back; exit 3"])
    path = f"/v1/client/allocation/{alloc_id}/exec"
    target = str(httpx.URL(path, params={"command": words, "task": "t"}))
    stdin = {"stdin": {"data": base64.b64encode(b"there\n").decode()}}
    for one in cluster.servers:
        port, context = int(one.url.rpartition(":")[2]), cluster.papers.context()
        frames, code = asyncio.run(asyncio.wait_for(websocket(port, target, [stdin], context), 30))
        parts = [each["stdout"].get("data", "") for each in frames if "stdout" in each]
        assert b"".join(map(base64.b64decode, parts)) == b"there-back\n"
        assert frames[-1] == {"exited": True, "result": {"exit_code": 3}}
        assert code == 1000


def test_blocking_reads_wait_at_every_server(cluster: SecureCluster) -> None:
    for one in cluster.servers:
        index = one.http.get("/v1/namespaces").headers["x-nomad-index"]
        one.http.put("/v1/namespace/later", json={"Name": "later", "Description": one.name})
        answer = one.http.get("/v1/namespaces", params={"index": index, "wait": "20s"})
        assert int(answer.headers["x-nomad-index"]) > int(index)
