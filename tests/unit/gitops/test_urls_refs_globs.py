"""Text from outside: repository URLs, refs, path globs. Each is valid or refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.errors import InvalidInputError, SourceError
from orchgit.gitops.git.globs import matches
from orchgit.gitops.git.refs import check_ref_name, is_commit_id, resolve_ref
from orchgit.gitops.git.urls import (
    check_proxy,
    normalized,
    origin_of,
    parse_url,
    proxy_for,
    redact,
)
from orchgit.gitops.parsing.trees import confined_path

COMMIT = "a" * 40


@pytest.mark.parametrize(
    ("text", "protocol", "origin"),
    [
        ("https://example.com/a/b.git", "https", "https://example.com"),
        ("http://127.0.0.1:8080/x", "http", "http://127.0.0.1:8080"),
        ("file:///srv/jobs.git", "file", ""),
        ("/srv/jobs", "file", ""),
        ("ssh://git@example.com:22/x.git", "ssh", "ssh://example.com"),
        ("ssh://git@Example.com:2222/x.git", "ssh", "ssh://example.com:2222"),
        ("https://Example.com:443/a/b.git", "https", "https://example.com"),
        ("http://[::1]:8080/x", "http", "http://[::1]:8080"),
        ("git://example.com/x.git", "git", ""),
        ("git@example.com:team/jobs.git", "ssh", "ssh://example.com"),
    ],
)
def test_allowed_urls(text: str, protocol: str, origin: str) -> None:
    url = parse_url(text)
    assert (url.protocol, url.origin, url.text) == (protocol, origin, text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ext::sh -c 'touch /tmp/x'",
        "--upload-pack=touch /tmp/x",
        "-oProxyCommand=x:y",
        "git://-x/y",
        "git://example.com/-x",
        "ftp://example.com/x",
        "file://host/x",
        "file:relative",
        "https:///nohost",
        "https://user:secret@example.com/x",
        "ssh://-oProxyCommand=x/y",
        "ssh://git@host/-x",
        "host:-x",
        "https://example.com/a\nb",
        "https://example.com:port/x",
    ],
)
def test_refused_urls_never_show_secrets(text: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        parse_url(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("origin", "same"),
    [
        ("https://Example.com/", "https://example.com"),
        ("https://example.com:443", "https://example.com"),
        ("ssh://example.com:2222", "ssh://example.com:2222"),
    ],
)
def test_origin_has_one_spelling(origin: str, same: str) -> None:
    assert origin_of(origin) == same


@pytest.mark.parametrize(
    "text", ["", "example.com", "https://h/path", "https://u:secret@h", "ftp://h", "https://h:x"]
)
def test_text_that_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot use origin") as refused:
        origin_of(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "no_proxy", "proxied"),
    [
        ("https://git.corp.example/x", (), True),
        ("https://git.corp.example/x", ("corp.example",), False),
        ("https://git.corp.example/x", (".corp.example",), False),
        ("https://corp.example/x", (".corp.example",), False),
        ("https://notcorp.example/x", ("corp.example",), True),
        ("https://git.corp.example/x", ("*",), False),
        ("ssh://git@git.corp.example/x", (), False),
        ("/srv/x", (), False),
    ],
)
def test_proxy_is_used_but_for_the_hosts_without(
    url: str, no_proxy: tuple[str, ...], proxied: bool
) -> None:
    proxy = "http://proxy:3128"
    assert proxy_for(parse_url(url), proxy, no_proxy) == (proxy if proxied else "")


def test_text_that_is_no_proxy_is_refused() -> None:
    for text in ("proxy:3128", "ftp://proxy", "http://", "http://proxy/path", "http://u:pw@p:x"):
        with pytest.raises(InvalidInputError, match="cannot use proxy") as refused:
            check_proxy(text)
        assert "pw" not in str(refused.value)
    for text in ("", "http://user:pw@proxy:3128", "socks5h://proxy:1080"):
        check_proxy(text)


@pytest.mark.parametrize("url", ["https://u:pw@h/x", "ssh://u:pw@h", "see http://pw@h/a and more"])
def test_redacted_text_has_no_password(url: str) -> None:
    assert "pw" not in redact(url)
    assert "***@h" in redact(url)


def test_spellings_of_one_repository_are_equal() -> None:
    spellings = [
        "https://github.com/Team/Jobs.git",
        "https://github.com/team/jobs",
        "git@github.com:team/jobs.git",
        "ssh://git@github.com/team/jobs.git",
    ]
    assert {normalized(each) for each in spellings} == {"github.com/team/jobs"}
    assert normalized("ext::x") == ""


@pytest.mark.parametrize(
    "ref",
    ["--upload-pack=x", "refs/heads/--x", "a..b", "a b", "a~1", "a:b", "x.lock", "/a", "a/", ""],
)
def test_refs_that_are_refused(ref: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot use ref"):
        check_ref_name(ref)


def test_short_names_of_refs_are_resolved() -> None:
    refs = {
        "HEAD": "1" * 40,
        "refs/heads/main": "2" * 40,
        "refs/tags/v1": "3" * 40,
        "refs/tags/v1^{}": "4" * 40,
    }
    assert resolve_ref("main", refs).name == "refs/heads/main"
    assert resolve_ref("refs/heads/main", refs).commit_id == "2" * 40
    assert resolve_ref("v1", refs).commit_id == "4" * 40
    assert resolve_ref(COMMIT, refs).name == COMMIT
    with pytest.raises(SourceError, match="branches there: main"):
        resolve_ref("prod", refs)


def test_commit_ids_are_full_hexadecimal_ids() -> None:
    assert is_commit_id(COMMIT)
    assert not is_commit_id("A" * 40)
    assert not is_commit_id("a" * 39)


@pytest.mark.parametrize(
    ("pattern", "path", "wanted"),
    [
        ("**/*.hcl", "a.hcl", True),
        ("**/*.hcl", "x/y/a.hcl", True),
        ("*.hcl", "x/a.hcl", False),
        ("jobs/*.nomad", "jobs/a.nomad", True),
        ("jobs/*.nomad", "jobs/x/a.nomad", False),
        ("jobs/**", "jobs/x/a.nomad", True),
        ("a?.hcl", "ab.hcl", True),
        ("a?.hcl", "a/.hcl", False),
        ("a.hcl", "axhcl", False),
        ("./a.hcl", "a.hcl", True),
    ],
)
def test_globs_match_within_and_across_directories(pattern: str, path: str, wanted: bool) -> None:
    assert matches(path, [pattern]) is wanted


@pytest.mark.parametrize("pattern", ["../x", "a/../../x", "/etc/*", "", "a\x00"])
def test_globs_that_lead_outside_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot use path glob"):
        matches("x", [pattern])


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["..", ".", "a", "b", ""]), max_size=8))
def test_a_confined_path_never_leaves_the_tree(parts: list[str]) -> None:
    found = confined_path("x/y/job.hcl", "/".join(parts))
    assert found is None or (not found.startswith("/") and ".." not in found.split("/"))


@pytest.mark.parametrize("path", ["/etc/passwd", "../../x", "a/../../../x", "a\\b", "x\x00"])
def test_path_out_of_the_tree_is_refused(path: str) -> None:
    assert confined_path("d/job.hcl", path) is None


def test_a_path_is_taken_from_its_file() -> None:
    assert confined_path("d/job.hcl", "x.sh") == "d/x.sh"
    assert confined_path("d/job.hcl", "../x.sh") == "x.sh"
