"""Sends recorded lives of access control objects: `python -m tests.scenarios.run_acl_objects DIR`.

Without `--addr` a server is started. A server given by `--addr URL` has access control on, is not
bootstrapped, and lets tokens live between 1 s and 24 h; `--data-dir` is its data directory, where
the file that allows another bootstrap is written. The last line is `N passed, N failed`; the exit
status is 1 if any failed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from orchgit.clock import SECOND_NS
from orchgit.services.acl.settings import RESET_FILE, AclSettings
from tests.support.golden_steps import step_differences
from tests.support.polling import until_blocking
from tests.support.server_rig import server_rig

ORDER = ("bootstrap", "policies", "tokens", "roles", "auth-methods", "binding-rules", "logins")
_LABEL = re.compile(r"<([a-z-]+:[^<>]*|onetime)>")
_NEW_ID = re.compile(r"<(?:secret|uuid)(?::[^<>]*)?>")
_MASKED_BODY = re.compile(r"<(time|uuid|pem|jwt)>")
_RESET_INDEX = re.compile(r"(reset index: )\d+")
_NEXT_TOKEN = re.compile(r"^\d+\.")
_MORE = re.compile(r"^header (allow|vary):|\.Hash: ")
"""Headers in which more may stand than was recorded, and hashes, which are no contract."""
_LISTS = {"AccessorID": "tokens", "Policies": "roles"}
"""A key of a list's items, and the list: for steps whose path the recording lost."""


class Recording:
    """One run over recorded steps, against one server."""

    def __init__(self, http: httpx.Client, server_dir: Path | None) -> None:
        self._http = http
        self._server_dir = server_dir
        self._labels: dict[str, str] = {"secret:bogus": str(uuid4())}
        self._reset_index = ""
        self._pem = _public_key()
        self._uuid = ""
        """The id in the step at work that names nothing."""

    def differences(self, step: Mapping[str, Any]) -> list[str]:
        request = step["request"]
        if "note" in request:
            return self._noted(step)
        self._uuid = str(uuid4())
        self._prepare(step)
        path = self._path(step)
        if path is None:
            return ["its path is not known"]
        answer = self._http.request(
            request["method"], path, headers=self._headers(request), content=self._body(step)
        )
        self._learn(step, answer)
        found = step_differences(_generalized(step), _sorted_answer(step, answer))
        return [line for line in found if not _MORE.search(line)]

    def _prepare(self, step: Mapping[str, Any]) -> None:
        name, token = step["name"], step["request"].get("token", "")
        if name.startswith("expired") and token:
            headers = {"X-Nomad-Token": self._labels[f"secret:{token}"]}
            until_blocking(
                lambda: self._http.get("/v1/acl/token/self", headers=headers).status_code != 200,
                problem=f"token {token} does not expire",
            )
        if self._server_dir is not None:
            written = {
                "bootstrap with a nonsense reset file": "nonsense",
                "bootstrap with a wrong reset index": "1",
            }.get(name)
            if name.startswith("bootstrap with the right reset index"):
                written = self._reset_index
            if written is not None:
                (self._server_dir / RESET_FILE).write_text(written)

    def forget_rules(self) -> None:
        """Deletes the policies of the rule texts, as the recorder did between its files."""
        headers = {"X-Nomad-Token": self._labels.get("secret:boot", "")}
        for policy in self._http.get("/v1/acl/policies", headers=headers).json():
            if re.fullmatch(r"w\d+", policy["Name"]):
                self._http.delete(f"/v1/acl/policy/{policy['Name']}", headers=headers)

    def _noted(self, step: Mapping[str, Any]) -> list[str]:
        if self._server_dir is None:
            return []
        exists = (self._server_dir / RESET_FILE).exists()
        wanted = step["response"]["exists"]
        return [] if exists == wanted else [f"the file exists: {exists}, {wanted} expected"]

    def _path(self, step: Mapping[str, Any]) -> str | None:
        path = step["request"]["path"]
        if path != "<string>":
            return self._filled(path)
        first = (step["response"].get("json") or [{}])[0]
        for key, name in _LISTS.items():
            found = _LABEL.search(str(first.get("AccessorID") or first.get("ID") or ""))
            if key in first and found is not None:
                return f"/v1/acl/{name}?prefix={self._labels[found[1]][:8]}"
        return None

    def _headers(self, request: Mapping[str, Any]) -> dict[str, str]:
        headers = {key: self._filled(value) for key, value in request.get("headers", {}).items()}
        token = request.get("token", "boot")
        if headers.get("Authorization") or token == "none":
            return headers
        secret = self._labels.get(f"secret:{token}")
        if secret is None and token != "boot":
            secret = token
        return {**headers, "X-Nomad-Token": secret} if secret else headers

    def _body(self, step: Mapping[str, Any]) -> bytes | None:
        body = step["request"].get("body")
        if body is None:
            return None
        if isinstance(body, str):
            return body.encode()
        text = json.dumps(body)
        moment = datetime.now(UTC) + timedelta(hours=1)
        refusal = step["response"].get("text", "")
        if "before create time" in refusal:
            moment = datetime.now(UTC) - timedelta(hours=1)
        elif "cannot be more than" in refusal:
            moment = datetime.now(UTC) + timedelta(hours=48)
        masks = {"time": moment.isoformat(), "uuid": self._uuid, "pem": self._pem, "jwt": "a.b.c"}
        text = _MASKED_BODY.sub(lambda found: json.dumps(masks[found[1]])[1:-1], text)
        return self._filled(text).encode()

    def _filled(self, text: str) -> str:
        text = _LABEL.sub(lambda found: self._labels.setdefault(found[1], str(uuid4())), text)
        return _NEW_ID.sub(self._uuid, text)

    def _learn(self, step: Mapping[str, Any], answer: httpx.Response) -> None:
        if found := re.search(r"reset index: (\d+)", answer.text):
            self._reset_index = found[1]
        if answer.status_code == 200 and "json" in step["response"]:
            self._learn_labels(step["response"]["json"], answer.json())

    def _learn_labels(self, recorded: Any, found: Any) -> None:
        if isinstance(recorded, dict) and isinstance(found, dict):
            for key in recorded.keys() & found.keys():
                self._learn_labels(recorded[key], found[key])
        elif isinstance(recorded, str) and isinstance(found, str):
            label = _LABEL.fullmatch(recorded)
            if label is not None:
                self._labels.setdefault(label[1], found)


def _generalized(step: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the step with masks for what depends on the log of the recorded server."""
    response = dict(step["response"])
    if "text" in response:
        response["text"] = _RESET_INDEX.sub(r"\1<n>", response["text"])
    headers = dict(response.get("headers") or {})
    if next_token := headers.get("X-Nomad-Nexttoken"):
        headers["X-Nomad-Nexttoken"] = _NEXT_TOKEN.sub("<n>.", next_token)
    response["headers"] = headers
    return {**step, "response": response}


def _sorted_answer(step: Mapping[str, Any], answer: httpx.Response) -> httpx.Response:
    """Returns a list in the order of the recording, where that was sorted by names."""
    recorded = step["response"].get("json")
    if not isinstance(recorded, list) or answer.status_code != 200:
        return answer
    names = [item.get("Name", "") for item in recorded if isinstance(item, dict)]
    if names != sorted(names):
        return answer
    items = sorted(answer.json(), key=lambda item: item.get("Name", ""))
    headers = {key: value for key, value in answer.headers.items() if key != "content-encoding"}
    return httpx.Response(answer.status_code, headers=headers, json=items)


def _public_key() -> str:
    from joserfc.jwk import RSAKey

    return RSAKey.generate_key(2048).as_pem(private=False).decode()


def steps_of(directory: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    files = {file.stem: file for file in directory.glob("*.json")}
    known = [name for name in ORDER if name in files]
    for name in [*known, *sorted(files.keys() - set(known))]:
        for step in json.loads(files[name].read_text(encoding="utf-8"))["steps"]:
            yield name, step


def run(directory: Path, http: httpx.Client, server_dir: Path | None) -> dict[str, list[str]]:
    """Returns the differences by the name of the step."""
    http.headers["Accept-Encoding"] = "identity"
    recording = Recording(http, server_dir)
    found: dict[str, list[str]] = {}
    last = ""
    for number, (file, step) in enumerate(steps_of(directory)):
        if last == "policies" != file:
            recording.forget_rules()
        last = file
        found[f"{file} {number}: {step['name']}"] = recording.differences(step)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--addr", help="of a server; without it, one is started")
    parser.add_argument("--data-dir", type=Path, help="the data directory of that server")
    given = parser.parse_args()
    if given.addr:
        server_dir = given.data_dir / "server" if given.data_dir else None
        with httpx.Client(base_url=given.addr, timeout=30.0, trust_env=False) as http:
            found = run(given.directory, http, server_dir)
    else:
        settings = AclSettings(enabled=True, token_min_expiration_ttl_ns=SECOND_NS)
        with (
            tempfile.TemporaryDirectory(prefix="acl-objects-") as directory,
            server_rig(Path(directory), with_agent=False, acl=settings) as rig,
        ):
            found = run(given.directory, rig.http, rig.server.config.server_dir)
    failed = {name: lines for name, lines in found.items() if lines}
    for name, lines in failed.items():
        print(f"{name}:", *lines[:12], sep="\n    ")
    print(f"{len(found) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not found else 0


if __name__ == "__main__":
    sys.exit(main())
