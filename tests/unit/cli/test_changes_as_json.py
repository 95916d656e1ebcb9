"""Changes print the server's answer for programs, and follow nothing then."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from orchgit.cli.main import cli
from tests.support.json_http_stub import JsonHttpStub, StubRequest

ANSWER = {"EvalID": "e" * 36, "DispatchedJobID": "web/dispatch-1"}
DEPLOYMENT = {"ID": "d" * 36, "JobID": "web", "Namespace": "default"}
JOB = {"ID": "web", "Namespace": "default", "Stop": True, "Version": 1, "TaskGroups": []}


class Cluster(JsonHttpStub):
    """A job and its deployment; it fails a command that follows an evaluation."""

    def answer(self, request: StubRequest) -> tuple[int, object]:
        found = {
            "/v1/jobs": [JOB],
            "/v1/job/web": JOB,
            "/v1/job/web/submission": {"Source": ""},
            "/v1/job/web/deployment": DEPLOYMENT,
            "/v1/deployments": [DEPLOYMENT],
        }
        if request.method != "GET" or request.path not in found:
            return (500 if "/evaluation/" in request.path else 200), ANSWER
        return 200, found[request.path]


@pytest.mark.parametrize(
    "words",
    [
        ("job", "start", "web"),
        ("job", "revert", "web", "0"),
        ("job", "scale", "web", "g", "2"),
        ("job", "dispatch", "web"),
        ("job", "eval", "web"),
        ("job", "periodic", "force", "web"),
        ("job", "promote", "web"),
        ("deployment", "promote", "d"),
        ("deployment", "pause", "d"),
        ("deployment", "resume", "d"),
        ("deployment", "fail", "d"),
        ("deployment", "unblock", "d"),
    ],
)
def test_answer_to_a_change_is_printed_and_nothing_is_followed(words: tuple[str, ...]) -> None:
    with Cluster() as cluster:
        found = CliRunner().invoke(cli, [*words, "-json", "-address", cluster.url])
        shown = CliRunner().invoke(cli, [*words, "-t", "{{.EvalID}}", "-address", cluster.url])
    assert found.exit_code == 0, found.output
    assert json.loads(found.output) == ANSWER
    assert shown.output == f"{ANSWER['EvalID']}\n"


def test_job_named_by_the_beginning_of_its_id_is_not_stopped_for_a_program_without_its_yes() -> (
    None
):
    with Cluster() as cluster:
        words = ["job", "stop", "-json", "we", "-address", cluster.url]
        found = CliRunner().invoke(cli, words)
    assert "cannot ask for confirmation with -json or -t: add -yes" in found.output


def test_job_named_by_the_beginning_of_its_id_stays_where_a_person_says_no() -> None:
    with Cluster() as cluster:
        words = ["job", "stop", "we", "-address", cluster.url]
        found = CliRunner().invoke(cli, words, input="n\n")
    assert (found.exit_code, found.exception) == (0, None), found.output
    assert "Stop job 'web'?" in found.output


def test_job_named_by_its_id_is_stopped_without_a_question() -> None:
    with Cluster() as cluster:
        words = ["job", "stop", "-detach", "web", "-address", cluster.url]
        found = CliRunner().invoke(cli, words, input="")
    assert (found.exit_code, found.exception) == (0, None), found.output
    assert "Stop job" not in found.output


def test_answers_to_several_stops_are_a_list() -> None:
    with Cluster() as cluster:
        words = ["job", "stop", "-yes", "-json", "web", "web", "-address", cluster.url]
        found = CliRunner().invoke(cli, words)
    assert json.loads(found.output) == [ANSWER, ANSWER]
