"""The pages at /ui/: what they show, that nothing in them comes alive, and that they stay live."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from tests.support.chromium import chromium_tab
from tests.support.dev_server import DevServer, dev_server, git
from tests.support.job_texts import sleeper

EVIL = "<img src=x onerror=alert(1)> First \u202e"
FAILS = """job "broken" {
  type = "batch"
  group "main" {
    reschedule {
      attempts  = 0
      unlimited = false
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "say" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo '<b>no database</b>' >&2; exit 7"]
      }
    }
  }
}
"""


class Texts(HTMLParser):
    """The text of a page, and the names of its elements."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    """A source with a job that was scaled by hand and one that failed, and a commit that waits."""
    directory = tmp_path_factory.mktemp("ui")
    with dev_server(directory / "data", "-no-demo") as started:
        work = directory / "work"
        work.mkdir()
        git(work, "init")
        assert started.cli("source", "add", "shop").code == 0
        (work / "web.nomad.hcl").write_text(sleeper("web"))
        (work / "broken.nomad.hcl").write_text(FAILS)
        git(work, "add", "-A")
        git(work, "commit", "-m", EVIL)
        git(work, "push", f"{started.address}/git/shop.git", "HEAD:refs/heads/main")
        assert started.cli("job", "scale", "-detach", "web", "2").code == 0
        started.wait_for("/v1/gitops/drift", bool)
        assert started.cli("source", "set", "shop", "-approvals", "1").code == 0
        (work / "web.nomad.hcl").write_text(sleeper("web", version="2"))
        git(work, "commit", "-am", "Version 2")
        url = f"{started.address}/git/shop.git"
        git(work, "push", "-o", "detach", url, "HEAD:refs/heads/main")
        yield started


@pytest.fixture
def pages(server: DevServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.address, trust_env=False, timeout=30) as client:
        yield client


def shown(pages: httpx.Client, path: str, status: int = 200) -> Texts:
    answer = pages.get(path)
    assert answer.status_code == status, answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    found = Texts(answer.text)
    assert found.elements & {"img", "b", "style"} == set()
    assert not {name for name in found.attributes if name.startswith("on") or name == "style"}
    assert "\u202e" not in found.text
    return found


def test_sources_show_health_reasons_commits_and_drift_with_who_and_what(
    pages: httpx.Client,
) -> None:
    text = shown(pages, "/ui/sources").text
    for each in ("shop", "degraded", "broken", "group.main.count", "1 → 2", "(scale)"):
        assert each in text, each
    assert pages.get("/").headers["location"] == "/ui/"
    assert pages.get("/ui/").headers["location"] == "/ui/sources"


def test_one_source_shows_its_settings_checks_and_rollouts(pages: httpx.Client) -> None:
    text = shown(pages, "/ui/source/shop").text
    for each in ("/git/shop.git", "refs/heads/main", "waits: ", "awaiting approval", "by Ada"):
        assert each in text, each
    assert "<img src=x onerror=alert(1)> First \\u202e" in text


def test_rollout_that_waits_shows_its_plan_and_the_gate(
    server: DevServer, pages: httpx.Client
) -> None:
    (waiting,) = server.get("/v1/gitops/rollouts", status="awaiting_approval")
    text = shown(pages, f"/ui/rollout/{waiting['ID']}").text
    for each in ("approval", "closed", "0 of 1", "orchgit rollout approve", "planned", "web"):
        assert each in text, each


def test_failed_rollout_shows_the_exit_code_and_the_output_as_text(
    server: DevServer, pages: httpx.Client
) -> None:
    (failed,) = server.get("/v1/gitops/rollouts", status="failed")
    text = shown(pages, f"/ui/rollout/{failed['ID']}").text
    for each in ("exit code 7", "<b>no database</b>", "broken.nomad.hcl:1"):
        assert each in text, each


def test_jobs_and_one_job_show_status_origin_and_allocations(pages: httpx.Client) -> None:
    assert {"web", "broken"} <= set(shown(pages, "/ui/jobs?prefix=").text.split())
    text = shown(pages, "/ui/job/default/web").text
    for each in ("running", "web.nomad.hcl:", "shop", "group.main.count", "Allocations"):
        assert each in text, each


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/ui/source/none", 404),
        ("/ui/source/%2e%2e", 404),
        ("/ui/rollout/00000000", 404),
        ("/ui/job/default/a%2Fb%3Cb%3E", 404),
        ("/ui/nothing", 404),
        ("/ui/rollouts?status=%3Cb%3E", 400),
    ],
)
def test_what_is_not_there_is_a_page_that_says_so(
    pages: httpx.Client, path: str, status: int
) -> None:
    assert "Sources" in shown(pages, path, status).text


def test_files_of_pages_have_types_and_tags_and_lead_nowhere_else(pages: httpx.Client) -> None:
    script = pages.get("/ui/static/live.js")
    assert script.headers["content-type"].startswith("text/javascript")
    again = pages.get("/ui/static/live.js", headers={"If-None-Match": script.headers["etag"]})
    assert again.status_code == 304
    assert pages.get("/ui/static/routes.py").status_code == 404
    assert pages.get("/ui/static/..%2f..%2froutes.py").status_code == 404


def test_token_is_kept_in_a_cookie_for_pages_alone_and_login_leads_to_pages_alone(
    pages: httpx.Client,
) -> None:
    refused = pages.post("/ui/login", data={"token": "a\nb", "back": "/ui/jobs"})
    assert refused.status_code == 400
    foreign = {"Origin": "https://other.example"}
    assert pages.post("/ui/login", data={"token": "x"}, headers=foreign).status_code == 403
    for back in ("https://other.example", "//other.example", "/v1/jobs", "/ui/\\x"):
        answer = pages.post("/ui/login", data={"token": "x", "back": back})
        assert answer.headers["location"] == "/ui/sources", back
    cookie = answer.headers["set-cookie"].lower()
    for each in ("httponly", "samesite=strict", "path=/ui"):
        assert each in cookie
    assert "max-age=0" in pages.post("/ui/logout").headers["set-cookie"].lower()


def test_command_prints_the_address_of_what_it_names(server: DevServer) -> None:
    (failed,) = server.get("/v1/gitops/rollouts", status="failed")
    for words, path in (
        ((), "/ui/sources"),
        (("shop",), "/ui/source/shop"),
        (("web",), "/ui/job/default/web"),
        ((failed["ID"][:8],), f"/ui/rollout/{failed['ID']}"),
    ):
        done = server.cli("ui", *words)
        assert (done.code, done.out) == (0, f"{server.address}{path}\n"), done.text
    done = server.cli("ui", "nothing-of-it")
    assert done.code == 1
    assert "cannot show" in done.text


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_open_page_shows_a_change_without_being_loaded_again(
    server: DevServer, tmp_path: Path
) -> None:
    async def watch() -> None:
        async with chromium_tab(tmp_path) as tab:
            await tab.open(f"{server.address}/ui/jobs")
            await tab.until("document.getElementById('live')?.textContent === 'live'")
            assert await tab.value("document.title") == "Jobs · orchgit"
            assert "ago" in await tab.value("document.querySelector('time').textContent")
            await tab.value("window.kept = true; document.querySelector('tbody a').focus()")
            focused = await tab.value("document.activeElement.textContent")
            work = tmp_path / "late.nomad.hcl"
            work.write_text(sleeper("late"))
            done = await asyncio.to_thread(server.cli, "job", "run", "-detach", str(work))
            assert done.code == 0, done.text
            await tab.until("document.getElementById('main').textContent.includes('late')")
            assert await tab.value("window.kept")
            assert await tab.value("document.activeElement.textContent") == focused
            assert tab.messages == []

    asyncio.run(watch())
