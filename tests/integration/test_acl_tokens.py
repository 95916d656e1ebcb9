"""Tokens over HTTP: bootstrap, life of a token, what is stored of its secret."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchgit.clock import SECOND_NS
from orchgit.services.acl.resolve import IdentityKind, resolve
from orchgit.services.acl.settings import RESET_FILE, AclSettings
from tests.support.server_rig import ServerRig, server_rig


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    settings = AclSettings(enabled=True, token_min_expiration_ttl_ns=SECOND_NS)
    directory = tmp_path_factory.mktemp("acl")
    with server_rig(directory, with_agent=False, acl=settings) as rig:
        rig.http.headers["X-Nomad-Token"] = bootstrap(rig)["SecretID"]
        yield rig


def bootstrap(rig: ServerRig, **body: str) -> dict[str, Any]:
    answer = rig.http.post("/v1/acl/bootstrap", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_reset_file_with_the_right_index_allows_another_bootstrap(rig: ServerRig) -> None:
    refused = rig.http.post("/v1/acl/bootstrap")
    assert refused.status_code == 400
    index = refused.text.rpartition(" ")[2].rstrip(")")
    file = rig.server.config.server_dir / RESET_FILE
    file.write_text("1")
    assert "specified 1, reset index" in rig.http.post("/v1/acl/bootstrap").text
    file.write_text(f"{index}\n")
    assert bootstrap(rig)["Type"] == "management"
    assert "specified" in rig.http.post("/v1/acl/bootstrap").text


def test_secret_finds_its_identity_and_is_nowhere_on_disk(rig: ServerRig) -> None:
    body = {"Name": "c", "Type": "client", "Policies": ["p", "q"], "ExpirationTTL": "1h"}
    made = rig.http.post("/v1/acl/token", json=body).json()
    now_ns = rig.server.services.context.now_ns()
    with rig.server.services.context.snapshot() as snapshot:
        found = resolve(snapshot, made["SecretID"], now_ns)
        assert found is not None
        assert (found.accessor_id, found.policies) == (made["AccessorID"], ("p", "q"))
        assert resolve(snapshot, made["SecretID"], now_ns + 3601 * SECOND_NS) is None
        assert resolve(snapshot, made["AccessorID"], now_ns) is None
        anonymous = resolve(snapshot, "", now_ns)
        assert anonymous is not None
        assert anonymous.kind == IdentityKind.ANONYMOUS
    assert rig.http.get(f"/v1/acl/token/{made['AccessorID']}").json() == made
    files = [file for file in Path(rig.data_dir).rglob("*") if file.is_file()]
    assert not [file for file in files if made["SecretID"].encode() in file.read_bytes()]


def test_restored_snapshot_brings_its_tokens_and_counts_as_bootstrapped(
    rig: ServerRig, tmp_path: Path
) -> None:
    saved = rig.http.get("/v1/operator/snapshot").content
    old = rig.http.headers["X-Nomad-Token"]
    accessor = rig.http.get("/v1/acl/token/self").json()["AccessorID"]
    with server_rig(tmp_path, with_agent=False, acl=AclSettings(enabled=True)) as other:
        mine = {"X-Nomad-Token": bootstrap(other)["SecretID"]}
        restored = other.http.put("/v1/operator/snapshot?force", content=saved, headers=mine)
        assert restored.status_code == 200, restored.text
        assert other.http.get("/v1/acl/tokens", headers=mine).status_code == 403
        other.http.headers["X-Nomad-Token"] = old
        assert other.http.get("/v1/acl/token/self").json()["SecretID"] == old
        assert "already done" in other.http.post("/v1/acl/bootstrap").text
        shown = other.http.get(f"/v1/acl/token/{accessor}")  # under another cluster key
        assert (shown.status_code, old in shown.text) == (503, False)
