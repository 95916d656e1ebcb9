"""Artifacts from S3-style and Google's stores: stubs on loopback, which check the signatures."""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from agent.artifacts.object_stores import sign_s3
from agent.artifacts.plan import FetchLimits, StoreLogin
from agent.hooks.base import SetupError
from tests.unit.agent.test_artifacts import fetch

LOGIN = StoreLogin(key_id="AKIAIOSFODNN7EXAMPLE", secret="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
OPTIONS = {"aws_access_key_id": LOGIN.key_id, "aws_access_key_secret": LOGIN.secret}
OBJECTS = {
    "dir/one.txt": b"one\n",
    "dir/sub/two.txt": b"two\n",
    "plain.txt": b"plain\n",
    "with space.txt": b"space\n",
}


@dataclass
class Store:
    """`signed` refuses requests without a right signature; `token` those without it."""

    signed: bool = False
    may_list: bool = True
    token: str = ""
    public_key: rsa.RSAPublicKey | None = None
    address: str = ""
    objects: dict[str, bytes] = field(default_factory=lambda: dict(OBJECTS))


def handler(store: Store) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *arguments: Any) -> None:
            """Silence."""

        def answer(self, code: int, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            form = parse_qs(self.rfile.read(length).decode())
            signed, _, signature = form["assertion"][0].rpartition(".")
            assert store.public_key is not None
            raw = base64.urlsafe_b64decode(signature + "==")
            store.public_key.verify(raw, signed.encode(), padding.PKCS1v15(), hashes.SHA256())
            self.answer(200, json.dumps({"access_token": store.token}).encode())

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = {key: value[0] for key, value in parse_qs(url.query).items()}
            if store.signed and not self.is_signed():
                return self.answer(403, b"")
            if store.token and self.headers["Authorization"] != f"Bearer {store.token}":
                return self.answer(401, b"")
            path = unquote(url.path)
            if "list-type" in query or path == "/storage/v1/b/bucket/o":
                if not store.may_list:
                    return self.answer(403, b"")
                keys = [key for key in store.objects if key.startswith(query["prefix"])]
                return self.answer(200, self.page(keys, query))
            key = path.removeprefix("/storage/v1/b/bucket/o/").removeprefix("/bucket/")
            found = store.objects.get(key)
            self.answer(404 if found is None else 200, found or b"")

        def page(self, keys: list[str], query: dict[str, str]) -> bytes:
            """One key a page."""
            at = int(query.get("continuation-token", query.get("pageToken", "0")))
            more = str(at + 1) if at + 1 < len(keys) else ""
            if "list-type" not in query:
                items = [{"name": key} for key in keys[at : at + 1]]
                return json.dumps({"items": items, "nextPageToken": more}).encode()
            token = f"<NextContinuationToken>{more}</NextContinuationToken>" if more else ""
            inside = "".join(f"<Contents><Key>{key}</Key></Contents>" for key in keys[at : at + 1])
            name = "http://s3.amazonaws.com/doc/2006-03-01/"
            return f'<ListBucketResult xmlns="{name}">{inside}{token}</ListBucketResult>'.encode()

        def is_signed(self) -> bool:
            stamp = self.headers.get("x-amz-date", "20200101T000000Z")
            now = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ")
            url = f"http://{self.headers['Host']}{self.path}"
            wanted = sign_s3(url, LOGIN, "us-east-1", now)
            return self.headers.get("Authorization") == wanted["Authorization"]

    return Handler


@pytest.fixture
def store() -> Iterator[Store]:
    found = Store()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(found))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    found.address = f"http://127.0.0.1:{server.server_address[1]}"
    with contextlib.closing(server.socket):
        yield found
        server.shutdown()
        thread.join()


def files(local: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(local)): path.read_bytes()
        for path in local.rglob("*")
        if path.is_file()
    }


def test_signature_is_that_of_amazons_example() -> None:
    """The example "Get Bucket" of Amazon's page on signatures in the Authorization header."""
    now = datetime.datetime(2013, 5, 24, tzinfo=datetime.UTC)
    url = "https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J"
    found = sign_s3(url, LOGIN, "us-east-1", now)
    assert found["Authorization"].endswith(
        "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
    )


def test_object_and_directory_are_fetched_with_signed_requests(
    tmp_path: Path, store: Store
) -> None:
    store.signed = True
    for name, wanted in (
        ("plain.txt", {"plain.txt": b"plain\n"}),
        ("with space.txt", {"with space.txt": b"space\n"}),
        ("dir", {"one.txt": b"one\n", "sub/two.txt": b"two\n"}),
        ("dir//sub", {"two.txt": b"two\n"}),
    ):
        source = f"s3::{store.address}/bucket/{name}"
        local = fetch(tmp_path / name.replace("/", "-"), source, getter_options=OPTIONS).paths.local
        assert files(local) == wanted
    with pytest.raises(SetupError, match="bad response code: 403"):
        fetch(tmp_path / "unsigned", f"s3::{store.address}/bucket/plain.txt")


def test_object_is_fetched_where_listing_is_forbidden(tmp_path: Path, store: Store) -> None:
    store.may_list = False
    local = fetch(tmp_path, f"s3::{store.address}/bucket/plain.txt").paths.local
    assert files(local) == {"plain.txt": b"plain\n"}


def test_key_outside_of_the_directory_is_refused(tmp_path: Path, store: Store) -> None:
    store.objects["dir/../../x"] = b"evil"
    with pytest.raises(SetupError, match="leads out"):
        fetch(tmp_path, f"s3::{store.address}/bucket/dir")


def test_google_store_takes_a_token_and_a_service_account(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    store.token, store.public_key = "the-token", key.public_key()
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    account = {
        "client_email": "a@b",
        "private_key": pem.decode(),
        "token_uri": f"{store.address}/token",
    }
    (tmp_path / "key.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "the-token")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    source = f"gcs::{store.address}/storage/v1/bucket/dir"
    for variable in ("GOOGLE_OAUTH_ACCESS_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS"):
        limits = FetchLimits(environment=(variable,))
        local = fetch(tmp_path / variable, source, limits).paths.local
        assert files(local) == {"one.txt": b"one\n", "sub/two.txt": b"two\n"}
    with pytest.raises(SetupError, match="bad response code: 401"):
        fetch(tmp_path / "none", source)


def test_checksum_of_an_object_is_verified(tmp_path: Path, store: Store) -> None:
    source = f"s3::{store.address}/bucket/plain.txt"
    right = hashlib.sha256(OBJECTS["plain.txt"]).hexdigest()
    fetch(tmp_path / "a", source, getter_options={"checksum": f"sha256:{right}"})
    with pytest.raises(SetupError, match="Checksums did not match"):
        fetch(tmp_path / "b", source, getter_options={"checksum": f"sha256:{'0' * 64}"})
    with pytest.raises(SetupError, match="no effect on a directory"):
        fetch(
            tmp_path / "c",
            f"s3::{store.address}/bucket/dir",
            getter_options={"checksum": f"sha256:{right}"},
        )
