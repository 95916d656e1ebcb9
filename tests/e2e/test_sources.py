"""Sources elsewhere: polled URLs, a GitHub webhook, a local path that is watched."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from orchgit.cli.user_name import user_name
from tests.support.dev_server import DevServer, dev_server, git
from tests.support.job_texts import sleeper

SECRET = "a secret of the tests"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    config = tmp_path_factory.mktemp("config") / "agent.hcl"
    config.write_text(f'gitops {{\n  webhook_secrets = {{ hook = "{SECRET}" }}\n}}\n')
    data = tmp_path_factory.mktemp("dev") / "data"
    paths = str(tmp_path_factory.getbasetemp())
    with dev_server(data, "-no-demo", "-config", str(config), "-local-path", paths) as started:
        yield started


@pytest.fixture
def upstream(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A work tree with one committed job, named after the test."""
    path = tmp_path / "upstream"
    path.mkdir()
    git(path, "init")
    write_job(path, name_of(request))
    return path


def name_of(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).replace("_", "-")[:40].strip("-")


def write_job(path: Path, name: str, version: str = "1") -> str:
    (path / "job.nomad.hcl").write_text(sleeper(name, version=version))
    git(path, "add", "-A")
    git(path, "commit", "-m", f"Version {version}")
    return git(path, "rev-parse", "HEAD").out.strip()


def healthy(server: DevServer, commit: str) -> None:
    found = server.wait_for(
        f"/v1/gitops/rollout/{commit}", lambda answer: answer["FinishedTime"] > 0
    )
    assert found["Status"] == "healthy", found


def test_polled_file_url_applies_new_commits(
    server: DevServer, upstream: Path, request: pytest.FixtureRequest
) -> None:
    name = name_of(request)
    added = server.cli("source", "add", name, f"file://{upstream}", "-poll-interval", "1s")
    assert added.code == 0, added.text
    healthy(server, git(upstream, "rev-parse", "HEAD").out.strip())
    healthy(server, write_job(upstream, name, "2"))


def test_commit_in_a_watched_local_path_is_applied(
    server: DevServer, upstream: Path, request: pytest.FixtureRequest
) -> None:
    name = name_of(request)
    added = server.cli("source", "add", name, str(upstream), "-poll-interval", "1h")
    assert added.code == 0, added.text
    healthy(server, git(upstream, "rev-parse", "HEAD").out.strip())
    healthy(server, write_job(upstream, name, "2"))


def test_github_webhook_wakes_the_source(
    server: DevServer, upstream: Path, request: pytest.FixtureRequest
) -> None:
    name = name_of(request)
    added = server.cli(
        *("source", "add", name, f"file://{upstream}"),
        *("-poll-interval", "1h", "-webhook-secret", "hook"),
    )
    assert added.code == 0, added.text
    healthy(server, git(upstream, "rev-parse", "HEAD").out.strip())
    commit = write_job(upstream, name, "2")
    body = push_event(upstream, commit)
    answer = deliver(server, body, signed(body), "wakes")
    assert answer.json() == {"Woken": [name]}
    assert answer.status_code == 202, answer.text
    healthy(server, commit)


def signed(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def push_event(upstream: Path, commit: str = "0" * 40) -> bytes:
    """The part of GitHub's push payload that counts."""
    repository = {"clone_url": f"file://{upstream}"}
    event = {"ref": "refs/heads/main", "after": commit, "repository": repository}
    return json.dumps(event).encode()


def deliver(
    server: DevServer,
    body: bytes,
    signature: str | None,
    delivery: str = "d-1",
    event: str = "push",
) -> httpx.Response:
    headers = {"X-GitHub-Event": event, "X-GitHub-Delivery": delivery}
    if signature is not None:
        headers["X-Hub-Signature-256"] = signature
    return httpx.post(
        f"{server.address}/v1/gitops/webhooks/github",
        content=body,
        headers=headers,
        trust_env=False,
    )


@pytest.fixture
def hooked(server: DevServer, upstream: Path, request: pytest.FixtureRequest) -> str:
    name = name_of(request)
    added = server.cli(
        *("source", "add", name, f"file://{upstream}"),
        *("-poll-interval", "1h", "-webhook-secret", "hook"),
    )
    assert added.code == 0, added.text
    return name


@pytest.mark.usefixtures("hooked")
def test_unsigned_wrong_and_empty_signatures_are_refused(server: DevServer, upstream: Path) -> None:
    body = push_event(upstream)
    for signature in (None, "", "sha256=", signed(body, "wrong"), signed(body, ""), "sha1=00"):
        answer = deliver(server, body, signature)
        assert answer.status_code == 401, (signature, answer.text)
        assert "cannot" in answer.text


@pytest.mark.usefixtures("hooked")
def test_malformed_huge_and_replayed_deliveries_are_refused(
    server: DevServer, upstream: Path
) -> None:
    for number, body in enumerate((b"", b"[]", b"{", b"null", b'{"ref": 7}', b"[" * 100_000)):
        answer = deliver(server, body, signed(body), f"malformed-{number}")
        assert answer.status_code == 400, (body[:20], answer.status_code, answer.text)
    huge = b'{"ref": "' + b"x" * (2 * 1024 * 1024) + b'"}'
    assert deliver(server, huge, signed(huge), "huge").status_code == 413
    good = push_event(upstream)
    assert deliver(server, good, signed(good), "twice").status_code == 202
    assert deliver(server, good, signed(good), "twice").status_code == 409


def test_outage_is_shown_as_an_error_and_stops_no_job(
    server: DevServer, upstream: Path, request: pytest.FixtureRequest
) -> None:
    name = name_of(request)
    server.cli("source", "add", name, f"file://{upstream}", "-poll-interval", "1s")
    healthy(server, git(upstream, "rev-parse", "HEAD").out.strip())
    upstream.rename(upstream.with_name("gone"))
    found = server.wait_for(
        f"/v1/gitops/source/{name}", lambda answer: answer["Status"]["LastError"] != ""
    )
    assert "cannot" in found["Status"]["LastError"]
    assert len(server.running_allocations(name)) == 1
    assert "unreachable" in server.cli("source", "list").out


def test_refs_and_urls_that_look_like_options_are_refused(server: DevServer) -> None:
    for arguments in (
        ("source", "add", "evil", "--", "--upload-pack=touch /tmp/evil"),
        ("source", "add", "evil", "ext::sh -c touch% /tmp/evil"),
        (
            "source",
            "add",
            "evil",
            "https://example.org/x.git",
            "-ref",
            "refs/heads/--upload-pack=x",
        ),
    ):
        done = server.cli(*arguments)
        assert done.code == 1, (arguments, done.text)
        assert "cannot" in done.err


def test_existing_source_is_changed_by_set_and_refused_by_add(
    server: DevServer, upstream: Path, request: pytest.FixtureRequest
) -> None:
    name = name_of(request)
    arguments = (name, f"file://{upstream}", "-poll-interval", "1h", "-var", "a=1", "-no-prune")
    assert server.cli("source", "add", *arguments).code == 0
    again = server.cli("source", "add", name)
    assert (again.code, f"`orchgit source set {name}`" in again.err) == (1, True), again.text
    changed = server.cli("source", "set", name, "-var", "b=2", "-rollout-deadline", "20m")
    assert changed.code == 0, changed.text
    source = server.get(f"/v1/gitops/source/{name}")
    assert source["Kind"] == "remote"
    assert source["URL"] == f"file://{upstream}"
    assert source["Variables"] == {"a": "1", "b": "2"}
    assert source["PollInterval"] == 3600 * 10**9
    assert source["RolloutDeadline"] == 1200 * 10**9
    assert (source["Prune"]["Enabled"], source["Prune"]["MaxSharePercent"]) == (False, 50)
    assert server.cli("source", "set", name).code == 1
    gates = ("-window", "deny 0 0 24 12 * 72h", "-approvals", "2", "-prune-max-share", "20")
    assert server.cli("source", "set", name, *gates).code == 0
    source = server.get(f"/v1/gitops/source/{name}")
    assert (source["Prune"]["Enabled"], source["Prune"]["MaxSharePercent"]) == (False, 20)
    assert (source["Gates"]["Approvals"], source["Gates"]["RequireFit"]) == (2, False)
    [window] = source["Gates"]["Windows"]
    assert (window["Action"], window["Duration"]) == ("deny", 72 * 3600 * 10**9)
    shown = server.cli("source", "status", name).out
    assert "deny 0 0 24 12 *" in shown
    assert "2 approvals" in shown
    refused = server.cli("source", "set", name, "-approvals", "99")
    assert (refused.code, "approvals must be within" in refused.err) == (1, True), refused.text
    removed = server.cli("source", "set", name, "-remove-var", "a", "-prune")
    assert removed.code == 0, removed.text
    source = server.get(f"/v1/gitops/source/{name}")
    assert (source["Variables"], source["Prune"]["Enabled"]) == ({"b": "2"}, True)


def test_sources_share_a_repository_and_settings_are_changed_one_by_one(
    server: DevServer, upstream: Path
) -> None:
    for name in ("shop", "bank"):
        added = server.cli("source", "add", name, "-repository", "mono", "-path", f"{name}/**")
        assert (added.code, "/git/mono.git" in added.out) == (0, True), added.text
        (upstream / name).mkdir()
        (upstream / name / "job.nomad.hcl").write_text(sleeper(f"of-{name}", count=0))
    (upstream / "job.nomad.hcl").unlink()
    git(upstream, "add", "-A")
    git(upstream, "commit", "-m", "Two products")
    pushed = git(upstream, "push", f"{server.address}/git/mono.git", "HEAD:main")
    assert (pushed.code, "+ of-shop" in pushed.text, "+ of-bank" in pushed.text) == (0, True, True)
    git(upstream, "remote", "add", "cluster", f"{server.address}/git/mono.git")
    asked = server.cli("diff", "-C", str(upstream))
    assert "bank, shop follow repository 'mono'" in asked.text
    assert server.cli("diff", "-C", str(upstream), "-source", "shop").code == 0
    ranged = ("-ref", "semver:>=1 <2", "-tag-prefix", "shop/v", "-exclude", "**/old/**")
    assert server.cli("source", "set", "shop", *ranged).code == 0
    assert server.cli("source", "set", "shop", "-prereleases").code == 0
    source = server.get("/v1/gitops/source/shop")
    assert source["Tags"] == {"Prefix": "shop/v", "Prereleases": True}
    assert (source["Ref"], source["Exclude"]) == ("semver:>=1 <2", ["**/old/**"])
    shown = server.cli("source", "status", "shop").out
    for text in ("semver:>=1 <2", "begin with shop/v, pre-releases too", "**/old/**", "mono"):
        assert text in shown
    for arguments, why in (
        (("set", "shop", "-repository", "other"), "cannot change the repository"),
        (("set", "shop", "-ref", "semver:newest"), "cannot use version range"),
        (("set", "shop", "-target-region", "mars"), "it is for region 'mars'"),
        (("set", "shop", "-exclude", "../x"), "cannot use path glob"),
        (("add", "mono", f"file://{upstream}"), "only built-in sources share one"),
        (("add", "tls", "https://git.example/x", "-ca-file", str(upstream / "no")), "cannot read"),
    ):
        refused = server.cli("source", *arguments)
        assert (refused.code, why in refused.err) == (1, True), refused.text


def test_change_of_a_sources_kind_over_the_api_is_refused(
    server: DevServer, upstream: Path, request: pytest.FixtureRequest
) -> None:
    """Else the mirror of a repository elsewhere could be cloned as a built-in one."""
    name = name_of(request)
    server.cli("source", "add", name, f"file://{upstream}", "-poll-interval", "1h")
    healthy(server, git(upstream, "rev-parse", "HEAD").out.strip())
    source = f"{server.address}/v1/gitops/source/{name}"
    builtin = {"Name": name, "Kind": "builtin", "URL": ""}
    put = httpx.put(source, json=builtin, trust_env=False)
    assert (put.status_code, "there is one of that name" in put.text) == (409, True), put.text
    put = httpx.put(f"{source}/settings", json=builtin, trust_env=False)
    assert (put.status_code, "cannot change the kind" in put.text) == (400, True), put.text
    put = httpx.put(f"{source}/settings", json={"PolInterval": 1}, trust_env=False)
    assert (put.status_code, "no setting 'polinterval'" in put.text) == (400, True), put.text
    assert server.cli("source", "remove", name, "-yes").code == 0
    put = httpx.put(source, json=builtin, trust_env=False)
    assert (put.status_code, "choose another name" in put.text) == (409, True), put.text


def test_rollout_names_who_asked_for_the_check_that_found_its_commit(
    server: DevServer, upstream: Path, request: pytest.FixtureRequest
) -> None:
    name = name_of(request)
    server.cli("source", "add", name, f"file://{upstream}", "-poll-interval", "1h")
    healthy(server, git(upstream, "rev-parse", "HEAD").out.strip())
    assert server.get(f"/v1/gitops/rollouts?source={name}")[0]["Pusher"] == ""
    for number, options in enumerate(([], ["-detach"])):
        commit = write_job(upstream, name, version=f"2.{number}")
        assert server.cli("source", "sync", name, *options).code == 0
        healthy(server, commit)
        shown = server.cli("rollout", "status", commit).out
        assert f"= sync by {user_name()} (claimed)\n" in shown


def test_rollback_pushes_a_branch_to_the_remote_from_a_clone_that_stays_as_it_is(
    server: DevServer, upstream: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    name, clone = name_of(request), tmp_path / "clone"
    first = git(upstream, "rev-parse", "HEAD").out.strip()
    server.cli("source", "add", name, f"file://{upstream}", "-poll-interval", "1h")
    healthy(server, first)
    git(tmp_path, "clone", "-q", str(upstream), "clone")
    last = write_job(upstream, name, version="2")
    assert server.cli("source", "sync", name, "-wait").code == 0
    command = ("source", "rollback", name, first[:8], "-yes", "-reason", "slow", "-branch")
    refused = server.cli(*command, "bad..name", cwd=clone)
    assert (refused.code, "bad..name" in refused.err) == (1, True), refused.text
    elsewhere = server.cli(*command, "back", cwd=tmp_path)
    assert (elsewhere.code, "not a git repository" in elsewhere.err) == (1, True), elsewhere.text
    assert server.get(f"/v1/gitops/source/{name}")["Status"]["AppliedCommit"] == last
    done = server.cli(*command, "back", cwd=clone)
    assert done.code == 0, done.text
    assert git(upstream, "rev-parse", "back~1").out.strip() == last
    assert git(upstream, "rev-parse", "back^{tree}").out == (
        git(upstream, "rev-parse", f"{first}^{{tree}}").out
    )
    assert "slow" in git(upstream, "log", "-1", "--format=%B", "back").out
    assert git(clone, "status", "--porcelain").out == ""
    assert git(clone, "rev-parse", "HEAD").out.strip() == first


def test_source_path_outside_the_configuration_is_refused(
    server: DevServer, upstream: Path
) -> None:
    for url in ("file:///etc", "/etc", f"file://{upstream}/../../../../../../etc"):
        added = server.cli("source", "add", "evil", url)
        assert (added.code, "local_paths" in added.err) == (1, True), added.text
    server.cli("source", "add", "moves", f"file://{upstream}", "-poll-interval", "1h")
    moved = server.cli("source", "set", "moves", "-url", "file:///etc")
    assert (moved.code, "status 403" in moved.err) == (1, True), moved.text


def test_renamed_source_keeps_its_jobs_and_removal_with_stop_stops_them(
    server: DevServer, upstream: Path, request: pytest.FixtureRequest
) -> None:
    name = name_of(request)
    server.cli("source", "add", name, f"file://{upstream}", "-poll-interval", "1h")
    healthy(server, git(upstream, "rev-parse", "HEAD").out.strip())
    renamed = server.cli("source", "rename", name, "renamed")
    assert renamed.code == 0, renamed.text
    adopted = server.wait_for(
        f"/v1/job/{name}", lambda job: (job["Origin"] or {}).get("Source") == "renamed"
    )
    assert adopted["Version"] == 0
    assert len(server.running_allocations(name)) == 1
    removed = server.cli("source", "remove", "renamed", "-stop", "-yes")
    assert "Stopped its jobs: " in removed.out, removed.text
    assert removed.code == 0, removed.text
    assert server.get(f"/v1/job/{name}")["Stop"]


def test_released_job_shows_how_to_give_it_back(
    server: DevServer, upstream: Path, request: pytest.FixtureRequest
) -> None:
    name = name_of(request)
    server.cli("source", "add", name, f"file://{upstream}", "-poll-interval", "1h")
    healthy(server, git(upstream, "rev-parse", "HEAD").out.strip())
    assert server.cli("source", "release", name).code == 0
    assert server.get(f"/v1/job/{name}")["Origin"]["ReleasedFrom"] == name
    twice = server.cli("source", "release", name)
    assert (twice.code, "it belongs to no source" in twice.err) == (1, True), twice.text
    assert server.cli("source", "release", "-undo", name).code == 0
    assert server.get(f"/v1/job/{name}")["Origin"]["Source"] == name


def test_commands_that_change_a_source_answer_programs_with_what_became_of_it(
    server: DevServer, upstream: Path, request: pytest.FixtureRequest
) -> None:
    name = name_of(request)
    url = f"file://{upstream}"
    added = server.cli_json("source", "add", name, url, "-poll-interval", "1s")
    assert (added["Name"], added["URL"]) == (name, url)
    healthy(server, git(upstream, "rev-parse", "HEAD").out.strip())
    changed = server.cli_json("source", "set", name, "-no-prune")
    assert not changed["Prune"]["Enabled"]
    assert server.cli_json("source", "release", name)["Index"] > 0
    renamed = server.cli_json("source", "rename", name, f"{name}-2")
    assert (renamed["Name"], renamed["Adopt"]) == (f"{name}-2", False)
    asked = server.cli("source", "remove", f"{name}-2", "-json")
    assert asked.code == 1
    assert "add -yes" in asked.text
    assert server.cli_json("source", "remove", f"{name}-2", "-yes")["Warnings"] == []
    assert server.cli_json("source", "add", f"{name}-3")["Kind"] == "builtin"
    nothing = server.cli("source", "remove", f"{name}-3", "-stop", "-yes")
    assert "It had no jobs to stop." in nothing.out, nothing.text
