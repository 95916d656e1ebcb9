"""Ranges of versions over tags: which tag a source follows, and which moves it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchgit.errors import InvalidInputError, SourceError
from orchgit.gitops.commits.descent import refusal_of_move
from orchgit.gitops.git.refs import ResolvedRef, check_followed_ref, newest_tag, resolve_ref
from orchgit.gitops.git.semver import parse_range, parse_version
from orchgit.model.source import Source, SourceStatus, TagPolicy

ANY = TagPolicy()


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        (">=1.2 <2", ["1.2.0", "1.9.9", "v1.2"], ["1.1.9", "2.0.0", "2.0.0-rc.1"]),
        (">=1.2,<2", ["1.2.0"], ["2.0.0"]),
        ("~1.4", ["1.4.0", "1.4.9"], ["1.5.0", "1.3.9"]),
        ("~1.4.2", ["1.4.2", "1.4.9"], ["1.4.1", "1.5.0"]),
        ("~1", ["1.0.0", "1.9.0"], ["2.0.0"]),
        ("^1.4", ["1.4.0", "1.9.0"], ["2.0.0", "1.3.0"]),
        ("^0.2.3", ["0.2.3", "0.2.9"], ["0.3.0", "0.2.2"]),
        ("1.x", ["1.0.0", "1.99.0"], ["2.0.0", "0.9.0"]),
        ("1.2.*", ["1.2.7"], ["1.3.0"]),
        ("*", ["0.0.1", "9.9.9"], []),
        (">1.2", ["1.3.0"], ["1.2.9"]),
        (">1.2.3", ["1.2.4"], ["1.2.3"]),
        ("<=1.2", ["1.2.9"], ["1.3.0"]),
        ("<=1.2.3", ["1.2.3"], ["1.2.4"]),
        ("1.2.3", ["1.2.3", "1.2.3+build"], ["1.2.4"]),
        (">=1 !=1.5", ["1.4.0"], ["1.5.0", "1.5.3"]),
        ("1.0.0 || >=3", ["1.0.0", "3.1.0"], ["2.0.0"]),
        (">=1.0.0-rc.2", ["1.0.0-rc.10", "1.0.0"], ["1.0.0-rc.1", "1.0.0-beta"]),
    ],
)
def test_range_holds_the_versions_it_names(
    text: str, inside: list[str], outside: list[str]
) -> None:
    wanted = parse_range(text)
    found = {each: parse_version(each) for each in inside + outside}
    assert [each for each in inside if not wanted.holds(found[each])] == []  # type: ignore[arg-type]
    assert [each for each in outside if wanted.holds(found[each])] == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["", "  ", "latest", ">=", "1.2 - 1.4", "1.2.3.4", "||", "1" * 300]
)
def test_text_that_is_no_range_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot use version range"):
        parse_range(text)


@given(st.text(alphabet="0123456789.xv*<>=~^!|-rc ,", max_size=30))
def test_any_text_is_a_range_or_refused(text: str) -> None:
    try:
        parse_range(text).holds(parse_version("1.2.3"))  # type: ignore[arg-type]
    except InvalidInputError:
        return


@given(st.lists(st.tuples(*[st.integers(0, 30)] * 3), min_size=1, max_size=10))
def test_newest_tag_is_the_greatest_version_whatever_the_order(
    numbers: list[tuple[int, int, int]],
) -> None:
    names = [f"refs/tags/v{'.'.join(map(str, each))}" for each in numbers]
    wanted = "refs/tags/v" + ".".join(map(str, max(numbers)))
    assert newest_tag("semver:*", names, ANY) == wanted
    assert newest_tag("semver:*", reversed(names), ANY) == wanted


TAGS = {
    "refs/heads/main": "0" * 40,
    "refs/tags/v1.2.0": "1" * 40,
    "refs/tags/v1.10.0": "2" * 40,
    "refs/tags/v1.10.0^{}": "3" * 40,
    "refs/tags/v2.0.0-rc.1": "4" * 40,
    "refs/tags/shop/v3.0.0": "5" * 40,
    "refs/tags/nightly": "6" * 40,
}


@pytest.mark.parametrize(
    ("ref", "tags", "name"),
    [
        ("semver:>=1.2 <2", ANY, "v1.10.0"),
        ("semver:*", ANY, "v1.10.0"),
        ("semver:*", TagPolicy(prereleases=True), "v2.0.0-rc.1"),
        ("semver:>=1", TagPolicy(prefix="shop/"), "shop/v3.0.0"),
        ("semver:>=1", TagPolicy(prefix="shop/v"), "shop/v3.0.0"),
    ],
)
def test_newest_tag_of_the_prefix_is_followed(ref: str, tags: TagPolicy, name: str) -> None:
    assert resolve_ref(ref, TAGS, tags).name == f"refs/tags/{name}"


def test_annotated_tag_of_a_range_is_peeled() -> None:
    assert resolve_ref("semver:1.x", TAGS).commit_id == "3" * 40


def test_range_without_a_tag_names_the_newest_version_there() -> None:
    with pytest.raises(SourceError, match=r"cannot find a tag for 'semver:>=4'.*newest is v1.10.0"):
        resolve_ref("semver:>=4", TAGS)
    with pytest.raises(SourceError, match="begin with 'api/' there; the newest is none"):
        resolve_ref("semver:*", TAGS, TagPolicy(prefix="api/"))


def test_policy_for_tags_without_a_range_is_refused() -> None:
    check_followed_ref("semver:>=1.2", TagPolicy("shop/", True))
    with pytest.raises(InvalidInputError, match="tag prefix"):
        check_followed_ref("refs/heads/main", TagPolicy("shop/"))
    with pytest.raises(InvalidInputError, match="cannot use version range"):
        check_followed_ref("semver:nonsense", ANY)
    with pytest.raises(InvalidInputError, match="cannot use ref"):
        check_followed_ref("semver:*", TagPolicy("a b"))


def moved(ref: str, new: str, old: str, descends: bool = False, **settings: object) -> str:
    source = Source(name="shop", ref=ref, status=SourceStatus(applied_commit="a" * 40), **settings)  # type: ignore[arg-type]
    return refusal_of_move(source, ResolvedRef(new, "b" * 40), old, descends)


def test_newer_tag_on_another_branch_is_followed_and_an_older_one_refused() -> None:
    assert moved("semver:*", "refs/tags/v1.3.0", "refs/tags/v1.2.9") == ""
    assert "go back from tag v1.3.0 to v1.2.9" in moved(
        "semver:*", "refs/tags/v1.2.9", "refs/tags/v1.3.0"
    )
    assert "go back" in moved("semver:*", "refs/tags/v1.2.9", "refs/tags/v1.3.0", descends=True)
    assert moved("semver:*", "refs/tags/v1.2.9", "refs/tags/v1.3.0", allow_rewind=True) == ""
    assert moved("semver:*", "refs/tags/v1.2.9", "", descends=True) == ""


def test_moved_tag_is_refused_unless_it_descends_or_rewinding_is_allowed() -> None:
    for ref in ("semver:*", "v1.2.0"):
        assert "tag v1.2.0 was moved" in moved(ref, "refs/tags/v1.2.0", "refs/tags/v1.2.0")
        assert moved(ref, "refs/tags/v1.2.0", "refs/tags/v1.2.0", allow_rewind=True) == ""
    assert "was history rewritten?" in moved("main", "refs/heads/main", "")
