"""Where job files come from: pipes, which can be read once, standard input and web addresses."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError

import pytest
from click.testing import CliRunner, Result

from orchgit.cli.client.http_client import ApiError
from orchgit.cli.job_files.job_files import JobFileInput, JobFileOptions
from orchgit.cli.job_files.web_files import MAX_BYTES, url_content
from orchgit.cli.main import cli

JOB = """\
variable "image" {}
job "piped" {
  group "g" {
    task "t" {
      driver = "docker"
      config {
        image = var.image
      }
    }
  }
}
"""
VARIABLES = 'image = "nginx:1"\n'


@contextmanager
def piped(content: str) -> Iterator[str]:
    """The path of a pipe that holds the content, as a shell's <(...) is."""
    reader, writer = os.pipe()
    os.write(writer, content.encode())
    os.close(writer)
    try:
        yield f"/dev/fd/{reader}"
    finally:
        os.close(reader)


def run(*arguments: str, stdin: str | None = None) -> Result:
    environment = {"NO_PROXY": "*", "NOMAD_ADDR": "", "ORCHGIT_ADDR": "http://127.0.0.1:1"}
    return CliRunner().invoke(cli, list(arguments), input=stdin, env=environment)


def test_piped_job_file_and_variables_are_read_once() -> None:
    with piped(JOB) as path, piped(VARIABLES) as variables:
        read = JobFileInput.read(path, JobFileOptions(var_file=(variables,)))
        assert read.job()["ID"] == "piped"
        assert read.submission() == {
            "Source": JOB,
            "Format": "hcl2",
            "VariableFlags": None,
            "Variables": VARIABLES,
        }


def test_text_of_standard_input_is_stored_with_the_job() -> None:
    with piped(JOB) as path:
        descriptor = int(path.rpartition("/")[2])
        kept = os.dup(0)
        os.dup2(descriptor, 0)
        try:
            read = JobFileInput.read("/dev/stdin", JobFileOptions(var=("image=a",)))
        finally:
            os.dup2(kept, 0)
            os.close(kept)
    assert read.job()["TaskGroups"][0]["Tasks"][0]["Config"] == {"image": "a"}
    assert read.submission()["Source"] == JOB


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
def test_command_takes_a_piped_job_file(command: str) -> None:
    with piped(JOB) as path, piped(VARIABLES) as variables:
        done = run("job", command, "-var-file", variables, path)
    assert "cannot find" not in done.output
    if command == "validate":
        assert done.stdout == "Job validation successful\n"
    else:
        assert "cannot reach the server" in f"{done.output}{done.exception}"


def test_validate_shows_mistakes_of_standard_input_with_their_lines() -> None:
    done = run("job", "validate", "-var=image=a", "-", stdin=JOB.replace("driver", "drvier"))
    assert done.exit_code == 1
    assert "<stdin>:5:" in done.output
    assert 'Did you mean "driver"?' in done.output


def test_standard_input_is_not_read_twice() -> None:
    for twice in (("-", "-"), ("/dev/stdin", "-")):
        with pytest.raises(ApiError, match="cannot read standard input twice"):
            JobFileInput.read(twice[0], JobFileOptions(var_file=(twice[1],)))


def test_piped_file_is_laid_out_on_standard_output() -> None:
    with piped(JOB.replace("  driver", "driver")) as path:
        done = run("fmt", path)
    assert (done.exit_code, done.stdout) == (0, JOB)


# -- web addresses -------------------------------------------------------------------------------


class Site:
    """A web server; `requests` are the paths and Authorization headers that it saw."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.requests.append((self.path, self.headers.get("Authorization") or ""))
                status, content, length = site.answer(self.path)
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/jobs/web.nomad.hcl")
                self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """A test's output stays free of requests."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def answer(self, path: str) -> tuple[int, bytes, int]:
        if path == "/jobs/web.nomad.hcl?ref=1":
            return 200, JOB.encode(), len(JOB)
        if path == "/jobs/web.nomad.hcl":
            return 200, VARIABLES.encode(), len(VARIABLES)
        if path == "/moved":
            return 302, b"", 0
        if path == "/cut":
            return 200, b"job", 100
        if path == "/large":
            return 200, b" " * (MAX_BYTES + 1), MAX_BYTES + 1
        return 404, b"", 0

    def url(self, path: str, user: str = "") -> str:
        return f"http://{user}127.0.0.1:{self.server.server_port}{path}"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NO_PROXY", "*")
    found = Site()
    threading.Thread(target=found.server.serve_forever, args=(0.01,), daemon=True).start()
    yield found
    found.server.shutdown()
    found.server.server_close()


def test_job_file_at_an_address_is_run(site: Site) -> None:
    url = site.url("/jobs/web.nomad.hcl?ref=1", "ada:secret@")
    done = run("job", "run", "-output", "-var=image=a", url)
    assert json.loads(done.stdout)["Job"]["ID"] == "piped"
    bad = run("job", "validate", url)
    assert bad.exit_code == 1
    assert f"{site.url('/jobs/web.nomad.hcl?ref=1')}:1:1: " in bad.output
    assert "secret" not in bad.output


def test_password_of_an_address_goes_to_its_server_only_and_is_never_shown(site: Site) -> None:
    assert url_content(site.url("/moved", "ada:s%40crt@")) == VARIABLES.encode()
    assert site.requests == [
        ("/moved", "Basic YWRhOnNAY3J0"),
        ("/jobs/web.nomad.hcl", ""),
    ]
    with pytest.raises(ApiError) as caught:
        url_content(site.url("/missing", "ada:s%40crt@"))
    assert (
        str(caught.value)
        == f"cannot read {site.url('/missing')}: the server answered 404 Not Found"
    )
    refusal = caught.value.__context__
    assert isinstance(refusal, HTTPError)
    assert refusal.fp is None or refusal.fp.closed


@pytest.mark.parametrize(
    ("path", "said"),
    [("/cut", "the server broke off"), ("/large", f"larger than {MAX_BYTES} bytes")],
)
def test_address_that_gives_no_whole_file_is_refused(site: Site, path: str, said: str) -> None:
    with pytest.raises(ApiError, match=said):
        url_content(site.url(path))


def test_answer_that_takes_too_long_in_all_is_refused(site: Site) -> None:
    times = iter((0.0, 1000.0))
    with pytest.raises(ApiError, match="it takes longer than"):
        url_content(site.url("/jobs/web.nomad.hcl"), lambda: next(times))


@pytest.mark.parametrize(
    "url",
    ["http://", "http://[", "https://127.0.0.1:99999/x", "http://127.0.0.1:1/x", "http://a b/"],
)
def test_address_that_cannot_be_asked_is_one_sentence(url: str) -> None:
    with pytest.raises(ApiError, match=r"cannot read http.*: ."):
        url_content(url)
