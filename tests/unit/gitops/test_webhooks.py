"""Webhooks: a body is parsed after its signature was checked, and wakes signed sources only."""

import hashlib
import hmac
import json
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.errors import (
    ConflictError,
    InvalidInputError,
    NotAllowedError,
    NotFoundError,
    UnavailableError,
)
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.webhooks import github
from orchgit.gitops.webhooks.event import Deliveries, PingEvent, PushEvent
from orchgit.gitops.webhooks.routes import WebhookRoutes
from orchgit.model.source import Source

SECRET = "it is a secret"
BODY = json.dumps(
    {
        "ref": "refs/heads/main",
        "after": "a" * 40,
        "repository": {
            "clone_url": "https://github.com/team/jobs.git",
            "ssh_url": "git@github.com:team/jobs.git",
            "owner": {"login": "team"},
        },
    }
).encode()


def signed(
    body: bytes, secret: str = SECRET, delivery: str = "d-1", event: str = "push"
) -> dict[str, str]:
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "X-Hub-Signature-256": f"sha256={digest}",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": delivery,
        "Content-Type": "application/json",
    }


def routes(*sources: Source, **secrets: str) -> tuple[WebhookRoutes, list[tuple[str, str]]]:
    woken: list[tuple[str, str]] = []
    found = sources or (
        Source(name="jobs", url="https://github.com/Team/jobs", webhook_secret="main", ref="main"),
    )
    made = WebhookRoutes(
        lambda: found, secrets or {"main": SECRET}, lambda *args: woken.append(args), 1024 * 1024
    )
    return made, woken


def test_known_signature_is_accepted() -> None:
    """The example of GitHub's documentation."""
    body = b"Hello, World!"
    value = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    github.check({"X-Hub-Signature-256": value}, body, "It's a Secret to Everybody")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Hub-Signature-256": ""},
        {"X-Hub-Signature-256": "sha256="},
        {"X-Hub-Signature-256": "sha1=" + "0" * 40},
        {"X-Hub-Signature": signed(BODY)["X-Hub-Signature-256"]},
        {"X-Hub-Signature-256": signed(BODY, "other")["X-Hub-Signature-256"]},
        {"X-Hub-Signature-256": signed(BODY)["X-Hub-Signature-256"].removeprefix("sha256=")},
        {"X-Hub-Signature-256": "sha256=ü"},
    ],
)
def test_unsigned_or_wrongly_signed_request_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(NotAllowedError):
        github.check(headers, BODY, SECRET)


def test_an_empty_secret_is_never_a_key() -> None:
    with pytest.raises(NotAllowedError, match="no secret is set"):
        github.check(signed(BODY, ""), BODY, "")
    handler, woken = routes(
        Source(name="jobs", url="https://github.com/team/jobs", webhook_secret="x")
    )
    with pytest.raises(UnavailableError, match="lacks a webhook secret"):
        handler.handle("github", signed(BODY, ""), BODY)
    assert not woken
    with pytest.raises(InvalidInputError, match="empty webhook secret"):
        GitopsConfig(webhook_secrets={"main": ""})


def test_sources_without_a_secret_take_no_part() -> None:
    handler, _ = routes(Source(name="jobs", url="https://github.com/team/jobs"))
    with pytest.raises(NotAllowedError, match="no source has a webhook secret"):
        handler.handle("github", signed(BODY), BODY)


def test_a_push_wakes_its_source() -> None:
    handler, woken = routes()
    assert handler.handle("github", signed(BODY), BODY) == ["jobs"]
    assert woken == [("jobs", "webhook")]


def test_a_form_is_read_too() -> None:
    body = urlencode({"payload": BODY.decode()}).encode()
    headers = signed(body) | {"Content-Type": "application/x-www-form-urlencoded"}
    assert routes()[0].handle("github", headers, body) == ["jobs"]


def test_other_branches_repositories_and_secrets_wake_nothing() -> None:
    other = BODY.replace(b"refs/heads/main", b"refs/heads/dev")
    elsewhere = BODY.replace(b"team/jobs", b"team/else")
    handler, woken = routes()
    assert handler.handle("github", signed(other, delivery="1"), other) == []
    assert handler.handle("github", signed(elsewhere, delivery="2"), elsewhere) == []
    mine = Source(name="mine", url="https://github.com/team/jobs", webhook_secret="a")
    theirs = Source(name="theirs", url="https://github.com/team/jobs", webhook_secret="b")
    handler, woken = routes(mine, theirs, a=SECRET, b="another")
    assert handler.handle("github", signed(BODY), BODY) == ["mine"]
    assert woken == [("mine", "webhook")]


def test_replayed_delivery_is_refused_and_forged_one_uses_up_no_id() -> None:
    handler, woken = routes()
    with pytest.raises(NotAllowedError):
        handler.handle("github", signed(BODY, "forged"), BODY)
    handler.handle("github", signed(BODY), BODY)
    with pytest.raises(ConflictError, match="accepted before"):
        handler.handle("github", signed(BODY), BODY)
    assert len(woken) == 1
    with pytest.raises(InvalidInputError, match="delivery id"):
        handler.handle("github", signed(BODY, delivery=""), BODY)


def test_ping_and_other_events_wake_nothing() -> None:
    handler, woken = routes()
    assert handler.handle("github", signed(b"{}", event="ping"), b"{}") == []
    assert isinstance(github.parse(signed(b"x", event="issues"), b"x"), PingEvent)
    assert not woken


def test_unknown_host_is_refused() -> None:
    with pytest.raises(NotFoundError, match="github, generic"):
        routes()[0].handle("gitlub", {}, b"")


def test_generic_webhook_wakes_its_source() -> None:
    body = json.dumps({"url": "https://github.com/team/jobs", "ref": "refs/heads/main"}).encode()
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"X-Signature": f"sha256={digest}", "X-Delivery": "1"}
    assert routes()[0].handle("generic", headers, body) == ["jobs"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["ref", "repository", "after", "clone_url"]), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=100)
@given(JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=64))
def test_a_signed_body_of_any_shape_costs_one_error(body: bytes) -> None:
    try:
        event = github.parse(signed(body), body)
    except InvalidInputError:
        return
    assert isinstance(event, PushEvent)
    assert all(isinstance(url, str) for url in event.repository_urls)


def test_deep_nesting_is_refused() -> None:
    body = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    with pytest.raises(InvalidInputError):
        github.parse(signed(body), body)


def test_only_the_newest_deliveries_are_kept() -> None:
    deliveries = Deliveries(kept=2)
    for name in ("1", "2", "3"):
        deliveries.accept("github", name)
    deliveries.accept("github", "1")
    deliveries.accept("generic", "3")
    with pytest.raises(ConflictError):
        deliveries.accept("github", "1")
