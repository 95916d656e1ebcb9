"""Gitops under access control: the git remote, what a source may change, and who did it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchgit.model.acl import ANONYMOUS, AclPolicy
from orchgit.model.node import Namespace
from orchgit.replication.commands.acl import PutAclPolicies
from orchgit.replication.commands.settings import UpsertNamespaces
from orchgit.server.audit.settings import AuditSettings
from orchgit.services.acl.settings import AclSettings
from tests.support.dev_server import Done, git
from tests.support.polling import until_blocking
from tests.support.server_rig import ServerRig, server_rig
from tests.support.websocket import websocket

TEAM_A = """
namespace "a" { policy = "write" gitops { policy = "write" } }
"""
RULES = {
    "team-a": TEAM_A,
    "team-a-force": TEAM_A + 'namespace "a" { capabilities = ["git-force"] }',
    "team-b": 'namespace "b" { policy = "write" gitops { policy = "write" } }',
    "reader-a": 'namespace "a" { capabilities = ["gitops-read"] }',
    "reader-default": 'namespace "default" { capabilities = ["gitops-read"] }',
    "approver-a": 'namespace "a" { capabilities = ["gitops-read", "gitops-approve"] }',
    "jobs-a": 'namespace "a" { capabilities = ["submit-job"] }',
}


@dataclass
class Team:
    """A cluster with namespaces `a` and `b`, and a token for each policy."""

    rig: ServerRig
    tokens: dict[str, str]
    accessors: dict[str, str]

    def ask(self, who: str, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = {"X-Nomad-Token": self.tokens[who]} if who else {}
        headers = {**headers, **({} if who else {"X-Nomad-Token": ""})}
        return self.rig.http.request(method, path, json=body, headers=headers)

    def source(self, name: str, who: str = "management", **settings: Any) -> httpx.Response:
        body = {"Kind": "builtin", "Namespace": "a", **settings}
        return self.ask(who, "PUT", f"/v1/gitops/source/{name}", body)

    def url(self, name: str, who: str = "") -> str:
        login = f"git:{self.tokens[who]}@" if who else ""
        return f"http://{login}{self.rig.server.http_address}/git/{name}.git"

    def show(self, name: str) -> dict[str, Any]:
        return dict(self.ask("management", "GET", f"/v1/gitops/source/{name}").json())


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    directory = tmp_path_factory.mktemp("team")
    acl, audit = AclSettings(enabled=True), AuditSettings()
    with server_rig(directory, with_agent=False, acl=acl, audit=audit) as rig:
        rig.http.headers["X-Nomad-Token"] = secret = rig.http.post("/v1/acl/bootstrap").json()[
            "SecretID"
        ]
        context = rig.server.services.context
        policies = [AclPolicy(name=name, rules=rules) for name, rules in RULES.items()]
        rig.run(context.propose(PutAclPolicies(policies=policies)))
        names = [Namespace(name="a"), Namespace(name="b")]
        rig.run(context.propose(UpsertNamespaces(namespaces=names)))
        tokens, accessors = {"management": secret}, {}
        for name in RULES:
            body = {"Name": f"{name}-token", "Type": "client", "Policies": [name]}
            made = rig.http.post("/v1/acl/token", json=body).json()
            tokens[name], accessors[name] = made["SecretID"], made["AccessorID"]
        yield Team(rig, tokens, accessors)


def job(name: str, namespace: str = "a") -> str:
    return (
        f'job "{name}" {{\n  namespace = "{namespace}"\n  type = "batch"\n'
        '  group "g" {\n    count = 0\n    task "t" { driver = "raw_exec" }\n  }\n}\n'
    )


def committed(work: Path, subject: str, **files: str) -> None:
    if not (work / ".git").exists():
        work.mkdir(parents=True)
        git(work, "init", "-q")
    for name, text in files.items():
        (work / f"{name}.nomad.hcl").write_text(text)
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", subject, "--allow-empty")


def said(done: Done) -> str:
    """What git printed, on one line."""
    return " ".join(done.text.replace("remote:", "").split())


def push(work: Path, url: str, *arguments: str) -> Done:
    return git(work, "push", *arguments, url, "HEAD:main", check=False)


def test_push_and_clone_want_the_token_as_password(team: Team, tmp_path: Path) -> None:
    assert team.source("site", Policies=["team-a"]).status_code == 200
    work = tmp_path / "work"
    committed(work, "First", web=job("web"))
    for who in ("", "reader-a", "team-b", "jobs-a"):
        refused = push(work, team.url("site", who))
        assert refused.code != 0, who
        assert team.show("site")["Status"]["AppliedCommit"] == ""
    done = push(work, team.url("site", "team-a"))
    assert done.code == 0, done.text
    assert team.show("site")["Status"]["AppliedCommit"]

    for who, code in (("reader-a", 0), ("team-a", 0), ("jobs-a", 128), ("team-b", 128), ("", 128)):
        target = tmp_path / f"clone-{who}"
        got = git(tmp_path, "clone", "-q", team.url("site", who), str(target), check=False)
        assert got.code == code, (who, got.text)
    nobody = httpx.get(team.url("site") + "/info/refs?service=git-upload-pack")
    assert nobody.status_code == 401
    assert nobody.headers["www-authenticate"].startswith("Basic ")
    unknown = httpx.get(team.url("nosuch") + "/info/refs?service=git-upload-pack")
    assert (unknown.status_code, unknown.text) == (401, nobody.text)


def test_losing_commits_wants_git_force(team: Team, tmp_path: Path) -> None:
    assert team.source("forced", Policies=["team-a"]).status_code == 200
    work = tmp_path / "work"
    committed(work, "First", f1=job("f1"))
    url, forceful = team.url("forced", "team-a"), team.url("forced", "team-a-force")
    assert push(work, url).code == 0
    assert git(work, "push", "-q", url, "HEAD:side", check=False).code == 0
    committed(work, "Second")
    assert git(work, "push", "-q", url, "HEAD:side", check=False).code == 0
    git(work, "reset", "-q", "--hard", "HEAD^")
    refused = git(work, "push", "-f", url, "HEAD:side", check=False)
    assert refused.code != 0
    assert "lacks git-force in namespace a" in refused.text
    assert git(work, "push", "-q", url, ":side", check=False).code != 0
    assert git(work, "push", "-f", "-q", forceful, "HEAD:side", check=False).code == 0


def test_source_of_one_team_cannot_touch_the_namespace_of_another(
    team: Team, tmp_path: Path
) -> None:
    assert team.source("mine", Namespace="b", Policies=["team-a"]).status_code == 200
    work = tmp_path / "work"
    committed(work, "Theirs", one=job("one", "b"), two=job("two", "b"))
    refused = push(work, team.url("mine", "management"))
    assert refused.code != 0
    text = said(refused)
    for name in ("one", "two"):
        assert (
            f"{name}.nomad.hcl:1:1: cannot apply job '{name}': the policies of source 'mine' "
            '(team-a) lack submit-job in namespace "b"'
        ) in text
        found = team.ask("management", "GET", f"/v1/job/{name}?namespace=b")
        assert found.status_code == 404


def test_refusal_does_not_tell_what_is_in_the_namespace_of_another(
    team: Team, tmp_path: Path
) -> None:
    assert team.source("theirs", Namespace="b", Policies=["team-b"]).status_code == 200
    assert team.source("curious", Namespace="default", Policies=["team-a"]).status_code == 200
    theirs, curious = tmp_path / "theirs", tmp_path / "curious"
    other = job("known", "b").replace("count = 0", 'count = 0\n    meta { key = "hidden" }')
    committed(theirs, "Theirs", known=other, same=job("same", "b"))
    assert push(theirs, team.url("theirs", "management")).code == 0
    committed(curious, "Mine", **{name: job(name, "b") for name in ("known", "same", "none")})
    refused = push(curious, team.url("curious", "management"))
    assert refused.code != 0
    for name in ("known", "same", "none"):
        assert (
            f"{name}.nomad.hcl:1:1: cannot apply job '{name}': the policies of source 'curious' "
            '(team-a) lack submit-job in namespace "b"'
        ) in said(refused)
    assert "theirs" not in refused.text
    files = [
        {
            "Path": f"{name}.nomad.hcl",
            "Content": base64.b64encode(job(name, "b").encode()).decode(),
        }
        for name in ("known", "none")
    ]
    previewed = team.ask("management", "PUT", "/v1/gitops/source/curious/plan", {"Files": files})
    assert previewed.status_code == 200, previewed.text
    assert previewed.json()["Jobs"] == []
    assert len(previewed.json()["Problems"]) == 2
    assert "hidden" not in previewed.text


def test_preview_shows_no_job_of_a_namespace_that_its_reader_may_not_read(
    team: Team, tmp_path: Path
) -> None:
    assert team.source("store", Namespace="b", Policies=["team-b"]).status_code == 200
    wide = {"Namespace": "default", "Policies": ["team-a", "team-b"]}
    assert team.source("wide", **wide).status_code == 200
    other = job("stored", "b").replace("count = 0", 'count = 0\n    meta { key = "hidden" }')
    committed(tmp_path / "store", "Stored", stored=other)
    assert push(tmp_path / "store", team.url("store", "management")).code == 0
    content = base64.b64encode(job("stored", "b").encode()).decode()
    files = {"Files": [{"Path": "stored.nomad.hcl", "Content": content}]}
    shown = {}
    for who in ("reader-default", "management"):
        answer = team.ask(who, "PUT", "/v1/gitops/source/wide/plan", files)
        assert answer.status_code == 200, answer.text
        shown[who] = answer
    assert "hidden" in shown["management"].text
    assert "hidden" not in shown["reader-default"].text
    assert shown["reader-default"].json()["Jobs"][0]["Diff"] is None


def test_source_needs_the_right_to_mount_what_its_jobs_mount(team: Team, tmp_path: Path) -> None:
    assert team.source("mounts", Policies=["team-a"]).status_code == 200
    volume = '  volume "data" {\n    type = "host"\n    source = "db"\n  }\n'
    text = job("mounts").replace("    count = 0\n", f"    count = 0\n{volume}")
    committed(tmp_path / "work", "Mounts", mounts=text)
    refused = push(tmp_path / "work", team.url("mounts", "management"))
    assert 'lack mount-readwrite of host_volume "db"' in said(refused)


def test_source_without_policies_changes_nothing(team: Team, tmp_path: Path) -> None:
    assert team.source("bare").status_code == 200
    work = tmp_path / "work"
    committed(work, "Bare", bare=job("bare"))
    refused = push(work, team.url("bare", "management"))
    assert refused.code != 0
    assert "(it has none)" in said(refused)
    settings = "/v1/gitops/source/bare/settings"
    given = team.ask("management", "PUT", settings, {"Policies": ["*"]})
    assert given.status_code == 200, given.text
    assert push(work, team.url("bare", "management")).code == 0


def test_policy_that_loses_a_right_stops_the_source(team: Team, tmp_path: Path) -> None:
    context = team.rig.server.services.context
    policy = AclPolicy(name="shrinking", rules=TEAM_A)
    team.rig.run(context.propose(PutAclPolicies(policies=[policy])))
    assert team.source("shrinks", Policies=["shrinking"]).status_code == 200
    work, url = tmp_path / "work", team.url("shrinks", "management")
    committed(work, "First", s1=job("s1"))
    assert push(work, url).code == 0
    policy = AclPolicy(name="shrinking", rules=RULES["reader-a"])
    team.rig.run(context.propose(PutAclPolicies(policies=[policy])))
    committed(work, "Second", s2=job("s2"))
    refused = push(work, url)
    assert refused.code != 0
    (work / "s2.nomad.hcl").unlink()
    (work / "s1.nomad.hcl").unlink()
    committed(work, "Without\n\nOrchgit-Delete: s1", readme="# nothing\n")
    (work / "readme.nomad.hcl").unlink()
    committed(work, "Gone\n\nOrchgit-Delete: s1")
    refused = push(work, url)
    assert "cannot delete job 's1'" in said(refused)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"Policies": ["team-b"]}, 'the policy "team-b"'),
        ({"Policies": ["*"]}, 'the policy "*"'),
        ({"Namespace": "b", "Policies": []}, ""),
    ],
)
def test_caller_cannot_give_a_source_more_rights_than_the_caller_has(
    team: Team, settings: dict[str, Any], why: str
) -> None:
    refused = team.source("more", "team-a", **settings)
    assert refused.status_code == 403
    assert why in refused.text
    assert team.ask("management", "GET", "/v1/gitops/source/more").status_code == 404


def test_caller_cannot_change_a_source_that_has_more_rights(team: Team) -> None:
    assert team.source("strong", Policies=["team-a", "team-b"]).status_code == 200
    settings = "/v1/gitops/source/strong/settings"
    refused = team.ask("team-a", "PUT", settings, {"Ref": "refs/heads/other"})
    assert refused.status_code == 403
    assert 'the policy "team-b"' in refused.text
    assert team.source("weak", "team-a", Policies=["team-a"]).status_code == 200
    settings = "/v1/gitops/source/weak/settings"
    assert team.ask("team-a", "PUT", settings, {"Namespace": "b"}).status_code == 403
    assert team.ask("team-a", "PUT", settings, {"Paths": ["*.hcl"]}).status_code == 200


def test_token_is_named_by_what_it_changed(team: Team, tmp_path: Path) -> None:
    assert team.source("named", "team-a", Policies=["team-a"]).status_code == 200
    work = tmp_path / "work"
    committed(work, "First", named=job("named"))
    assert push(work, team.url("named", "team-a")).code == 0
    blame = team.ask("team-a", "GET", "/v1/gitops/blame/named?namespace=a").json()
    author = {
        "AccessorID": team.accessors["team-a"],
        "Name": "team-a-token",
        "IsClaimed": False,
        "Address": "",
    }
    assert blame["Token"]["Author"] == author
    rollout = team.ask("team-a", "GET", f"/v1/gitops/rollout/{blame['RolloutID']}").json()
    assert (rollout["Pusher"], rollout["Token"]["Author"]) == ("team-a-token", author)
    pause = team.ask("team-a", "PUT", "/v1/gitops/source/named/pause", {"By": "somebody else"})
    assert pause.status_code == 200
    shown = team.show("named")
    assert shown["Pause"]["By"] == "team-a-token"
    assert shown["Token"]["Author"] == author
    committed(work, "Second", named=job("named"), other=job("other"))
    assert push(work, team.url("named", "team-a")).code == 0
    assert team.ask("team-a", "PUT", "/v1/gitops/source/named/resume", {}).status_code == 200
    resumed = team.ask("team-a", "PUT", "/v1/gitops/source/named/sync?wait=60s").json()
    rollout = team.ask("team-a", "GET", f"/v1/gitops/rollout/{resumed['RolloutID']}").json()
    assert rollout["Trigger"] == "api"
    assert (rollout["Pusher"], rollout["Token"]["Author"]) == ("team-a-token", author)
    versions = team.ask("team-a", "GET", "/v1/gitops/authors/named?namespace=a").json()
    assert [(each["Key"], each["Author"]) for each in versions] == [("a/named@0", author)]


def test_approval_counts_for_the_tokens_name_not_for_a_claimed_one(
    team: Team, tmp_path: Path
) -> None:
    body = {"Name": "both-token", "Type": "client", "Policies": ["team-a", "approver-a"]}
    team.tokens["both"] = team.rig.http.post("/v1/acl/token", json=body).json()["SecretID"]
    gates = {"Approvals": 1}
    assert team.source("gated", Policies=["team-a"], Gates=gates).status_code == 200
    committed(tmp_path / "work", "First", gated=job("gated"))
    assert push(tmp_path / "work", team.url("gated", "both"), "-o", "detach").code == 0
    [waits] = team.ask("both", "GET", "/v1/gitops/rollouts?source=gated&namespace=a").json()
    approve = f"/v1/gitops/rollout/{waits['ID']}/approve"
    claim = {"By": "somebody else", "PlanHash": waits["PlanHash"]}
    assert team.ask("team-a", "PUT", approve, claim).status_code == 403
    own = team.ask("both", "PUT", approve, claim)
    assert own.status_code != 200
    assert "both-token" in own.text
    assert team.show("gated")["Status"]["AppliedCommit"] == ""
    done = team.ask("approver-a", "PUT", approve, claim)
    assert done.status_code == 200, done.text
    assert [each["By"] for each in done.json()["Gates"]["Approvals"]] == ["approver-a-token"]


def test_audit_log_names_tokens_and_holds_no_secret(team: Team) -> None:
    team.ask("reader-a", "GET", "/v1/gitops/sources?namespace=a")
    text = (team.rig.server.config.data_dir / "audit" / "audit.log").read_text()
    last = json.loads(text.splitlines()[-1])["payload"]
    assert last["auth"]["accessor_id"] == team.accessors["reader-a"]
    assert last["auth"]["name"] == "reader-a-token"
    assert not [name for name, secret in team.tokens.items() if secret in text]


def test_sources_are_refused_to_a_token_that_was_revoked_while_it_waited(team: Team) -> None:
    body = {"Name": "waits", "Type": "client", "Policies": ["reader-a"]}
    token = team.rig.http.post("/v1/acl/token", json=body).json()
    team.tokens["waits"] = token["SecretID"]
    index = team.ask("waits", "GET", "/v1/gitops/sources").headers["x-nomad-index"]
    audit = team.rig.server.config.data_dir / "audit" / "audit.log"

    def received() -> int:
        lines = [json.loads(line)["payload"] for line in audit.read_text().splitlines()]
        return sum(
            (each["auth"]["accessor_id"], each["stage"])
            == (token["AccessorID"], "OperationReceived")
            for each in lines
        )

    before = received()
    with ThreadPoolExecutor(1) as pool:
        path = f"/v1/gitops/sources?index={index}&wait=60s"
        waiting = pool.submit(team.ask, "waits", "GET", path)
        until_blocking(lambda: received() > before)
        team.rig.http.delete(f"/v1/acl/token/{token['AccessorID']}")
        assert team.source("wakes").status_code == 200
        answer = waiting.result(60)
    del team.tokens["waits"]
    assert (answer.status_code, answer.text) == (403, "Permission denied")


def test_token_in_the_first_message_of_a_websocket_is_named_in_the_audit_log(team: Team) -> None:
    port = int(team.rig.server.http_address.rpartition(":")[2])
    path = "/v1/client/allocation/00000000-0000-4000-8000-000000000000/exec?task=t"
    path += "&command=%5B%22true%22%5D&ws_handshake=true"
    hello = {"version": 1, "auth_token": team.tokens["management"]}
    team.rig.run(websocket(port, path, [hello]))
    own = team.ask("management", "GET", "/v1/acl/token/self").json()["AccessorID"]
    lines = (team.rig.server.config.data_dir / "audit" / "audit.log").read_text().splitlines()
    payloads = [json.loads(line)["payload"] for line in lines]
    found = [each for each in payloads if each["request"]["operation"] == "WEBSOCKET"]
    assert [each["auth"]["accessor_id"] for each in found[-2:]] == [ANONYMOUS, own]
