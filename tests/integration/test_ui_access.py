"""Pages of a server with access control: they show what the reader's token may see."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from orchgit.services.acl.settings import AclSettings
from tests.support.server_rig import server_rig


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The server's URL, and a management token."""
    directory = tmp_path_factory.mktemp("access")
    with server_rig(directory, with_agent=False, acl=AclSettings(enabled=True)) as rig:
        made = rig.http.put("/v1/acl/bootstrap")
        assert made.status_code == 200, made.text
        secret = made.json()["SecretID"]
        shop = {"Name": "shop", "Namespace": "default"}
        headers = {"X-Nomad-Token": secret}
        added = rig.http.put("/v1/gitops/source/shop", json=shop, headers=headers)
        assert added.status_code == 200, added.text
        yield str(rig.http.base_url), secret


def reader(address: tuple[str, str]) -> httpx.Client:
    return httpx.Client(base_url=address[0], trust_env=False, timeout=30)


def test_reader_without_a_token_is_led_to_the_login_and_sees_nothing(
    address: tuple[str, str],
) -> None:
    with reader(address) as pages:
        for path in ("/ui/source/shop", "/ui/jobs", "/ui/rollouts"):
            refused = pages.get(path)
            assert "shop" not in refused.text.replace("source%2Fshop", ""), path
        assert pages.get("/ui/jobs").status_code == 403
        assert "/ui/login?back=%2Fui%2Fjobs" in pages.get("/ui/jobs").text
        assert pages.get("/ui/live", params={"page": "/ui/jobs"}).status_code == 403
        assert pages.get("/ui/static/style.css").status_code == 200
        assert pages.post("/ui/jobs").status_code == 405
        assert pages.delete("/ui/jobs").status_code == 405


def test_login_with_an_unknown_token_is_refused_and_sets_no_cookie(
    address: tuple[str, str],
) -> None:
    with reader(address) as pages:
        refused = pages.post("/ui/login", data={"token": "00000000-0000-0000-0000-000000000000"})
        assert refused.status_code == 403
        assert "set-cookie" not in refused.headers


def test_reader_with_a_token_sees_pages_until_logging_out(address: tuple[str, str]) -> None:
    with reader(address) as pages:
        entered = pages.post("/ui/login", data={"token": address[1], "back": "/ui/source/shop"})
        assert (entered.status_code, entered.headers["location"]) == (303, "/ui/source/shop")
        assert "Source shop" in pages.get("/ui/source/shop").text
        assert "/ui/source/shop" in pages.get("/ui/sources").text
        assert address[1] not in pages.get("/ui/sources").text
        pages.post("/ui/logout")
        assert pages.get("/ui/jobs").status_code == 403


def one_time_token(address: tuple[str, str]) -> str:
    with reader(address) as api:
        made = api.post("/v1/acl/token/onetime", headers={"X-Nomad-Token": address[1]})
    return str(made.json()["OneTimeToken"]["OneTimeSecretID"])


@pytest.mark.parametrize("page", ["/ui/login", "/ui/", "/ui/source/shop"])
def test_link_with_a_one_time_token_logs_in_once(address: tuple[str, str], page: str) -> None:
    link = {"ott": one_time_token(address), "back": "/ui/source/shop"}
    with reader(address) as pages:
        assert pages.head("/ui/login", params=link).status_code == 200
        shown = pages.get(page, params=link, follow_redirects=True)
        assert shown.status_code == 200, shown.text
        assert "Log out" in shown.text
        assert "ott" not in str(shown.url)
        assert address[1] not in shown.text
    with reader(address) as other:
        refused = other.get("/ui/login", params=link)
        assert (refused.status_code, "set-cookie" in refused.headers) == (403, False)
        assert "orchgit ui -authenticate" in refused.text


def test_link_of_another_site_logs_in_by_a_click_only(address: tuple[str, str]) -> None:
    link = {"ott": one_time_token(address), "back": "/ui/jobs"}
    with reader(address) as pages:
        asked = pages.get("/ui/login", params=link, headers={"Sec-Fetch-Site": "cross-site"})
        assert (asked.status_code, "set-cookie" in asked.headers) == (200, False)
        assert link["ott"] in asked.text
        clicked = pages.post("/ui/login", data=link, headers={"Sec-Fetch-Site": "same-origin"})
        assert (clicked.status_code, clicked.headers["location"]) == (303, "/ui/jobs")
        assert pages.get("/ui/jobs").status_code == 200


def test_link_does_not_lead_to_another_site(address: tuple[str, str]) -> None:
    link = {"ott": one_time_token(address), "back": "https://elsewhere.example/"}
    with reader(address) as pages:
        entered = pages.get("/ui/login", params=link)
        assert (entered.status_code, entered.headers["location"]) == (303, "/ui/sources")
