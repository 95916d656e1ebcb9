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
