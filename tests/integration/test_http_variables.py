"""Variables and root keys on the wire, and that no secret of theirs lies anywhere in plain."""

from __future__ import annotations

import base64
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchgit.api.shapes import nomad_json
from orchgit.model.event import Event
from tests.support.secrets import files_with, spellings
from tests.support.server_rig import ServerRig, server_rig

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    with server_rig(tmp_path_factory.mktemp("vars"), with_agent=False, num_schedulers=0) as found:
        found.wait_for("/v1/operator/keyring/keys", bool)
        yield found


@pytest.fixture
def http(rig: ServerRig) -> httpx.Client:
    return rig.http


@pytest.fixture
def path() -> str:
    return f"/v1/var/app/{next(_numbers)}"


def items(**values: str) -> dict[str, dict[str, str]]:
    return {"Items": values}


def test_variable_is_read_with_its_indexes(http: httpx.Client, path: str) -> None:
    stored = http.put(path, json={"items": {"User": "ada"}})
    found = http.get(path)
    assert found.json() == stored.json()
    assert found.json()["Items"] == {"User": "ada"}
    assert "Lock" not in found.json()
    assert int(found.headers["x-nomad-index"]) == found.json()["ModifyIndex"]


def test_conflict_is_answered_with_409_and_the_current_variable(
    http: httpx.Client, path: str
) -> None:
    first = http.put(f"{path}?cas=0", json=items(n="1")).json()
    refused = http.put(f"{path}?cas=0", json=items(n="2"))
    assert (refused.status_code, refused.json()) == (409, first)
    second = http.put(f"{path}?cas={first['ModifyIndex']}", json=items(n="2"))
    assert second.status_code == 200
    assert http.delete(f"{path}?cas={first['ModifyIndex']}").json() == second.json()
    assert http.delete(f"{path}?cas={second.json()['ModifyIndex']}").status_code == 204
    gone = http.put(f"{path}?cas=5", json=items(n="3"))
    assert (gone.status_code, gone.json()["ModifyIndex"]) == (409, 0)


def test_concurrent_check_and_sets_lose_no_increment(http: httpx.Client, path: str) -> None:
    def count(_: int) -> None:
        current = http.get(path)
        while True:
            known = current.json() if current.status_code in (200, 409) else None
            index = known["ModifyIndex"] if known else 0
            number = int(known["Items"].get("n", "0")) if known else 0
            current = http.put(f"{path}?cas={index}", json=items(n=str(number + 1)))
            if current.status_code == 200:
                return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(40)))
    assert http.get(path).json()["Items"] == {"n": "40"}


def test_lock_id_is_shown_to_those_who_may_write(http: httpx.Client, path: str) -> None:
    wanted = {**items(a="b"), "Lock": {"TTL": "20s", "LockDelay": "0s"}}
    held = http.put(f"{path}?lock-acquire", json=wanted).json()
    assert held["Lock"]["TTL"] == "20s"
    refused = http.put(f"{path}?lock-acquire", json=wanted)
    assert refused.status_code == 409
    assert "Lock" not in refused.json()
    prefix = path.removeprefix("/v1/var/")
    [listed] = http.get("/v1/vars", params={"prefix": prefix}).json()
    assert listed["Lock"]["ID"] == held["Lock"]["ID"]
    assert http.put(path, json=items(a="c")).status_code == 409
    own = {"Lock": {"ID": held["Lock"]["ID"]}}
    assert http.put(path, json={**items(a="c"), **own}).status_code == 200
    renewed = http.put(f"{path}?lock-renew", json=own)
    assert renewed.status_code == 200
    assert "Items" not in renewed.json()
    assert "Lock" not in http.put(f"{path}?lock-release", json=own).json()
    assert http.put(f"{path}?lock-renew", json=own).status_code == 409


@pytest.mark.parametrize(
    ("query", "body", "text"),
    [
        ("?cas=x", items(a="b"), "cas"),
        ("?cas=1&lock-acquire", items(a="b"), "check-and-set"),
        ("?lock-acquire&lock-renew", items(a="b"), "multiple lock operations"),
        ("?lock-acquire", {"Lock": {"TTL": "1s"}}, "TTL must be between"),
        ("?lock-acquire", {"Lock": {"TTL": "soon"}}, "duration"),
        ("?lock-release", {}, "lock ID"),
        ("", {"Items": {"a": 1}}, "cannot unmarshal number"),
        ("", {"Items": {}}, "missing required Items"),
    ],
)
def test_invalid_variable_request_is_answered_with_400(
    http: httpx.Client, path: str, query: str, body: object, text: str
) -> None:
    answer = http.put(path + query, json=body)
    assert answer.status_code == 400
    assert text in answer.text


def test_variables_are_listed_by_namespace_page_and_filter(http: httpx.Client) -> None:
    http.put("/v1/namespace", json={"Name": "list-a"})
    for name in ("p/1", "p/2", "p/3", "q/1"):
        http.put(f"/v1/var/{name}", params={"namespace": "list-a"}, json=items(a="b"))
    asked = {"namespace": "list-a", "prefix": "p/", "per_page": "2"}
    page = http.get("/v1/vars", params=asked)
    assert [each["Path"] for each in page.json()] == ["p/1", "p/2"]
    rest = http.get("/v1/vars", params={**asked, "next_token": page.headers["x-nomad-nexttoken"]})
    assert [each["Path"] for each in rest.json()] == ["p/3"]
    only = http.get(
        "/v1/vars", params={"namespace": "*", "filter": 'VariableMetadata.Path == "q/1"'}
    )
    assert [each["Namespace"] for each in only.json()] == ["list-a"]
    assert http.get("/v1/var/p/1").status_code == 404


def test_blocking_read_is_woken_by_its_own_variable_only(rig: ServerRig, path: str) -> None:
    http = rig.http
    index = http.put(path, json=items(a="b")).json()["ModifyIndex"]
    asked = {"index": str(index), "wait": "20s"}
    answers: list[httpx.Response] = []
    base = f"http://{rig.server.http_address}"
    reader = threading.Thread(
        target=lambda: answers.append(
            httpx.get(base + path, params=asked, timeout=30, trust_env=False)
        )
    )
    reader.start()
    http.put(f"{path}-other", json=items(a="x"))
    http.put(path, json=items(a="c"))
    reader.join()
    assert answers[0].json()["Items"] == {"a": "c"}


def test_rotated_key_encrypts_later_writes(http: httpx.Client, path: str) -> None:
    http.put(path, json=items(a="b"))
    [active] = [
        each for each in http.get("/v1/operator/keyring/keys").json() if each["State"] == "active"
    ]
    later = http.put("/v1/operator/keyring/rotate?publish_time=1900000000000000000")
    assert later.status_code == 400
    assert "cannot publish a root key before it is used" in later.text
    made = http.put("/v1/operator/keyring/rotate?full=true").json()["Key"]
    web_keys = http.get("/.well-known/jwks.json").json()["keys"]
    assert {made["KeyID"], active["KeyID"]} <= {each["kid"] for each in web_keys}
    assert http.get(path).json()["Items"] == {"a": "b"}
    assert http.delete(f"/v1/operator/keyring/key/{made['KeyID']}").status_code == 409
    assert http.delete(f"/v1/operator/keyring/key/{active['KeyID']}").status_code == 200
    assert http.get(path).json()["Items"] == {"a": "b"}


SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=12, max_size=60)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(SECRETS, min_size=3, max_size=3, unique=True), st.sampled_from(["put", "lock"]))
def test_secret_is_in_no_file_in_plain_text(
    rig: ServerRig, capfd: pytest.CaptureFixture[str], secrets: list[str], way: str
) -> None:
    """Names and values; written, refused, overwritten, deleted: in files, events, lists, logs."""
    http, path = rig.http, f"/v1/var/canary/{next(_numbers)}"
    old, new, name = (f"canary-{secret}-{next(_numbers)}" for secret in secrets)
    query = "?lock-acquire" if way == "lock" else ""
    written = http.put(path + query, json={"Items": {name: old}})
    assert written.status_code == 200
    own = {"Lock": written.json()["Lock"]} if way == "lock" else {}
    assert http.put(f"{path}?cas=1", json={"Items": {name: new}, **own}).status_code == 409
    assert http.put(path, json={"Items": {name: new}, **own}).status_code == 200
    assert http.put(path, json={"Items": {name: [new]}}).status_code == 400
    assert http.put("/v1/var/nomad/no", json={"Items": {name: new}}).status_code == 400
    if way == "lock":
        http.put(f"{path}?lock-release", json=own)
    http.delete(path)
    http.put(path, json={"Items": {name: new}})

    wanted = [spelling for secret in (old, new, name) for spelling in spellings(secret)]
    assert not files_with(rig.data_dir, wanted)
    answers = [
        http.get(url).content
        for url in (
            *("/v1/vars?namespace=*", "/v1/operator/keyring/keys", "/.well-known/jwks.json"),
            *("/v1/agent/self", "/v1/metrics", "/v1/jobs"),
        )
    ]
    answers.append(http.put("/v1/search", json={"Prefix": "canary", "Context": "all"}).content)
    answers += [nomad_json.encode(event.payload) for event in _events(rig)]
    out = capfd.readouterr()
    answers += [out.out.encode(), out.err.encode()]
    assert not any(each in answer for each in wanted for answer in answers)


def _events(rig: ServerRig) -> list[Event]:
    """Everything the event stream still holds."""
    return [event for batch in rig.server.events.after(0) for event in batch.events]


def test_keyring_files_are_readable_by_the_server_only(rig: ServerRig) -> None:
    keyring = rig.data_dir / "server" / "server" / "keyring"
    assert keyring.stat().st_mode & 0o077 == 0
    [file] = keyring.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    key = base64.b64decode(file.read_text())
    elsewhere = [
        each
        for each in files_with(rig.data_dir, [key, file.read_bytes().strip()])
        if Path(each) != file
    ]
    assert not elsewhere
