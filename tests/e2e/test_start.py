"""What stops `orchgit dev` from starting is said in one line, with the way out."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.support.certificates import Authority
from tests.support.dev_server import DevServer, OrchgitProcess, end_tasks
from tests.support.secure_cluster import Office, Papers


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-data-dir", "/proc/nowhere"), "choose another with -data-dir"),
        (("-bind", "0.0.0.0"), "insecure_http = true"),
        (("-config", "/nonexistent.hcl"), "cannot read /nonexistent.hcl"),
    ],
)
def test_failed_start_names_the_reason(
    shared_dev: DevServer, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    given = ("dev", "-no-demo", "-port", "0", "-data-dir", str(tmp_path / "data"), *arguments)
    done = shared_dev.cli(*given)
    assert done.code == 1
    assert said in done.err
    assert "Traceback" not in done.err


def test_port_or_directory_in_use_is_refused_by_name(shared_dev: DevServer, tmp_path: Path) -> None:
    port = shared_dev.address.rsplit(":", 1)[1]
    taken = shared_dev.cli("dev", "-no-demo", "-port", port, "-data-dir", str(tmp_path / "data"))
    assert taken.code == 1
    assert "choose another port" in taken.err
    again = shared_dev.cli("dev", "-no-demo", "-port", "0", "-data-dir", str(shared_dev.data_dir))
    assert again.code == 1
    assert "is running in it" in again.err


def test_cleanup_of_a_directory_in_use_is_refused(shared_dev: DevServer) -> None:
    done = shared_dev.cli("dev", "-cleanup", "-data-dir", str(shared_dev.data_dir))
    assert done.code == 1
    assert f"process {shared_dev.pid} is running in it" in done.err


def configured(directory: Path, papers: Papers) -> tuple[str, ...]:
    """`orchgit dev` over HTTPS."""
    file = directory / "agent.json"
    file.write_text(json.dumps({"tls": papers.section(http=True, rpc=False)}))
    given = ("-port", "0", "-data-dir", str(directory / "data"), "-config", str(file))
    return ("dev", *given)


def test_dev_server_over_https_runs_the_demo(tmp_path: Path) -> None:
    papers = Office(tmp_path / "office").issue("server")
    dev = OrchgitProcess(*configured(tmp_path, papers), ready="Try:")
    try:
        dev.start()
        (url,) = re.findall(r"HTTP   (https://\S+)", dev.output)
        (variable,) = re.findall(r"export (GIT_SSL_CAINFO=\S+)", dev.output)
        answer = httpx.get(f"{url}/v1/jobs", verify=papers.context(shown=False), trust_env=False)
        assert answer.status_code == 200
        name, _, path = variable.partition("=")
        subprocess.run(
            ["git", "ls-remote", "-q", "--exit-code", f"{url}/git/demo.git", "main"],
            env={**os.environ, name: path},
            check=True,
            capture_output=True,
        )
    finally:
        if dev.is_running:
            dev.kill9()
        end_tasks(tmp_path / "data")


def test_certificate_for_another_host_is_refused_by_name(
    shared_dev: DevServer, tmp_path: Path
) -> None:
    files = Authority(tmp_path / "office").issue(tmp_path / "ours", "10.0.0.1")
    done = shared_dev.cli(*configured(tmp_path, Papers(files.ca, files.cert, files.key)))
    assert done.code == 1
    assert "its certificate is not for 127.0.0.1" in done.err
    assert "Traceback" not in done.err
