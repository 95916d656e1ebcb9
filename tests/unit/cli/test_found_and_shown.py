"""How commands find what is meant, and what they show of it."""

from __future__ import annotations

from typing import Any

import pytest

from orchgit.cli.client.by_name import find_by_name
from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.commands.alloc_status import event_text, show_ports
from orchgit.cli.commands.diff import show_plan
from orchgit.cli.commands.logs import listing_of
from orchgit.cli.commands.volume_find import find_volume, matching_volumes
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.errors import InvalidInputError
from tests.support.cli_golden import found_command
from tests.support.json_http_stub import JsonHttpStub, StubRequest

VOLUMES: dict[str, list[dict[str, Any]]] = {
    "host": [
        {"ID": "aaaa-1", "Name": "data", "NodeID": "n1"},
        {"ID": "aaab-2", "Name": "data", "NodeID": "n2"},
        {"ID": "bbbb-3", "Name": "logs", "NodeID": "n1"},
    ],
    "csi": [{"ID": "backup", "Name": "backup"}, {"ID": "logs-old", "Name": "old"}],
}


class Volumes:
    def get(self, path: str, **query: str) -> list[dict[str, Any]]:
        return VOLUMES[query["type"]]


def ids(identifier: str, *kinds: str) -> list[str]:
    found = matching_volumes(Volumes(), identifier, kinds or ("host", "csi"))  # type: ignore[arg-type]
    return [each["ID"] for _, each in found]


def test_volume_is_found_by_id_then_name_then_beginning_of_its_id() -> None:
    assert ids("aaaa-1") == ["aaaa-1"]
    assert ids("logs") == ["bbbb-3"]
    assert ids("data") == ["aaaa-1", "aaab-2"]
    assert ids("log", "csi") == ["logs-old"]
    assert ids("old") == ["logs-old"]
    assert ids("aaa") == ["aaaa-1", "aaab-2"]


def test_volume_that_is_not_there_or_not_the_only_one_is_refused() -> None:
    with pytest.raises(ApiError, match="no id begins with it, and none has this name"):
        ids("nothing")
    with pytest.raises(ApiError) as caught:
        find_volume(Volumes(), "data")  # type: ignore[arg-type]
    assert "aaaa-1 (node n1), aaab-2 (node n2); give the id" in str(caught.value)
    assert find_volume(Volumes(), "backup")[0] == "csi"  # type: ignore[arg-type]


def test_plan_tells_no_placement_of_a_job_that_is_launched_later(
    capsys: pytest.CaptureFixture[str],
) -> None:
    group = {"Name": "g", "Wanted": 1, "Placed": 1}
    jobs = [
        {"JobID": name, "Action": "create", "Fit": {"LaunchOnly": later, "Groups": [group]}}
        for name, later in (("nightly", True), ("web", False))
    ]
    show_plan({"Problems": [], "Jobs": jobs, "Summary": {"Create": 2}}, verbose=False)
    assert capsys.readouterr().out.splitlines() == [
        "create nightly",
        "create web",
        "    group g: place 1",
        "Jobs: 2 to create, 0 unchanged.",
    ]


def test_ports_of_ipv6_addresses_are_shown_with_brackets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ports = [
        {"Label": "http", "HostIP": "fd00::1", "Value": 8080, "To": 80},
        {"Label": "old", "HostIP": "10.0.0.1", "Value": 22, "To": 22},
    ]
    show_ports({"AllocatedResources": {"Shared": {"Ports": ports}}})
    shown = capsys.readouterr().out
    assert "[fd00::1]:8080 -> 80" in shown
    assert "10.0.0.1:22" in shown


class NoJobs:
    """Has one allocation, and no job of its id."""

    def find(self, kind: str, path: str, prefix: str, **_: Any) -> dict[str, Any]:
        raise ApiError(f"cannot find {kind} {prefix!r}", 404)

    def get(self, path: str, prefix: str, **_: Any) -> list[dict[str, Any]]:
        found = {"ID": "abcde123-0000", "Namespace": "default"}
        return [found] if found["ID"].startswith(prefix) else []


def test_logs_of_an_allocation_are_found_by_beginnings_of_any_length() -> None:
    for length in range(1, 8):
        path, _ = listing_of(NoJobs(), "abcde123"[:length])  # type: ignore[arg-type]
        assert path == "/v1/allocation/abcde123-0000"


@pytest.mark.parametrize(
    ("kind", "listing"),
    [
        ("alloc", "job allocs"),
        ("claim", "volume claim list"),
        ("eval", "eval list"),
        ("scaling policy", "scaling policy list"),
        ("node", "node status"),
    ],
)
def test_id_that_cannot_be_one_is_told_with_the_command_that_lists_them(
    kind: str, listing: str
) -> None:
    class Refusing(ApiClient):
        def get(self, path: str, /, **params: Any) -> Any:
            if params.get("prefix"):
                raise ApiError("index error: Invalid UUID: encoding/hex (status 500)", 500)
            return []

    with pytest.raises(ApiError, match=f"`orchgit {listing}.*` lists them") as caught:
        Refusing().find(kind, "/v1/things", "zz")
    assert caught.value.status == 404
    assert found_command(listing) is not None


def test_template_that_cannot_be_read_is_named() -> None:
    with pytest.raises(InvalidInputError, match="cannot print through the template of -t: "):
        OutputFormat(template="{{.Foo").printed({})


class Forbidding(JsonHttpStub):
    def answer(self, request: StubRequest) -> tuple[int, object]:
        return 403, "Permission denied"


@pytest.mark.parametrize(("token", "is_told"), [(None, True), ("t", False)])
def test_refusal_of_a_request_without_a_token_names_how_to_give_one(
    token: str | None, is_told: bool
) -> None:
    with (
        Forbidding() as server,
        ApiClient(server.url, token=token) as client,
        pytest.raises(ApiError, match="Permission denied") as caught,
    ):
        client.get("/v1/nodes")
    assert ("no token was given: set ORCHGIT_TOKEN" in str(caught.value)) is is_told


class Named(JsonHttpStub):
    """A cluster with one namespace, which no prefix of a misspelt name finds."""

    def answer(self, request: StubRequest) -> tuple[int, object]:
        return 200, [] if "prefix=" in request.query else [{"Name": "team-a"}]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("team-b", "did you mean 'team-a'?"), ("xyz", "`orchgit namespace list` lists them")],
)
def test_misspelt_name_is_told_with_the_nearest_or_the_listing(name: str, hint: str) -> None:
    with Named() as server, ApiClient(server.url) as client:
        with pytest.raises(ApiError) as caught:
            find_by_name(client, "namespace", "/v1/namespaces", name)
    assert caught.value.message == f"cannot find namespace {name!r}: {hint}"


@pytest.mark.parametrize(
    ("details", "text"),
    [
        (None, "Exit Code: 137"),
        ({"oom_killed": "false"}, "Exit Code: 137"),
        ({"oom_killed": "true"}, "Exit Code: 137 (out of memory: raise memory or memory_max)"),
    ],
)
def test_event_of_a_task_that_had_too_little_memory_says_so(
    details: dict[str, str] | None, text: str
) -> None:
    assert event_text({"DisplayMessage": "Exit Code: 137", "Details": details}) == text
