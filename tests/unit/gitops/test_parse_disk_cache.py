"""The disk cache of parsed files: it saves parsing after a restart, and damage costs a parse."""

from __future__ import annotations

import json
import sqlite3
import stat
from pathlib import Path

import msgspec
import pytest

from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.parsing.cache import ParseCache
from orchgit.gitops.parsing.discovery import Discoverer, Discovery
from orchgit.gitops.parsing.disk_cache import DiskParseCache
from orchgit.gitops.parsing.trees import MemoryTree
from orchgit.model.source import Source
from tests.support.git_repos import batch_job
from tests.support.gitops_rig import CountingParser

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "jobspec"
MIB = 1024 * 1024


class Restarted:
    """Each `read` is by a server that has just started with the same data directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "parsed.sqlite"
        self.parsed: list[str] = []
        self.version = "1"

    def read(self, files: dict[str, str], **settings: object) -> Discovery:
        version = self.version

        class Parser(CountingParser):
            @property
            def version(self) -> str:
                return version

        parser = Parser()
        store = DiskParseCache(self.path, MIB)
        source = msgspec.structs.replace(Source(name="demo"), **settings)
        tree = MemoryTree({n: c.encode() for n, c in files.items()}, GitLimits())
        found = Discoverer(parser, ParseCache(store)).discover(tree, source)
        store.close()
        self.parsed = parser.parsed
        return found


FILES = {f"{n}.hcl": batch_job(f"j{n}") for n in range(30)}


def test_after_a_restart_only_what_changed_is_parsed(tmp_path: Path) -> None:
    server = Restarted(tmp_path)
    first = server.read(FILES)
    assert len(server.parsed) == 30
    again = server.read(FILES | {"7.hcl": batch_job("j7", text="new")})
    assert (server.parsed, again.parsed_count) == (["7.hcl"], 1)
    same = {key: each for key, each in again.jobs.items() if key[1] != "j7"}
    assert same == {key: first.jobs[key] for key in same}
    server.read(FILES)
    assert server.parsed == []


def test_recorded_jobs_come_back_equal(tmp_path: Path) -> None:
    files = {path.name: path.read_text() for path in sorted(GOLDEN.glob("*.nomad.hcl"))}
    server = Restarted(tmp_path)
    first = server.read(files)
    assert len(first.jobs) > 25
    again = server.read(files)
    assert again.jobs == first.jobs
    assert {json.dumps(msgspec.to_builtins(each.job)) for each in again.jobs.values()} == {
        json.dumps(msgspec.to_builtins(each.job)) for each in first.jobs.values()
    }


def test_variables_files_and_the_parser_are_part_of_the_key(tmp_path: Path) -> None:
    text = 'variable "name" {}\n' + batch_job("web", text='${var.name}${file("motd")}')
    files = {"web.hcl": text, "motd": "hello"}
    server = Restarted(tmp_path)

    def parses(files: dict[str, str], name: str) -> bool:
        assert server.read(files, variables={"name": name}).problems == ()
        return bool(server.parsed)

    assert parses(files, "a")
    assert not parses(files, "a")
    assert parses(files, "b")
    assert parses(files | {"motd": "bye"}, "a")
    server.version = "2"
    assert parses(files | {"motd": "bye"}, "a")


def test_problems_are_not_cached_on_disk(tmp_path: Path) -> None:
    server = Restarted(tmp_path)
    broken = {"a.hcl": batch_job("a").replace("driver", "drvier"), "b.hcl": batch_job("b")}
    first = server.read(broken)
    assert server.read(broken).problems == first.problems
    assert server.parsed == ["a.hcl"]


@pytest.mark.parametrize(
    "damage", ["garbage", "truncated", "empty", "flipped", "swapped", "a directory"]
)
def test_damaged_record_is_parsed_again(tmp_path: Path, damage: str) -> None:
    server = Restarted(tmp_path)
    wanted = server.read(FILES).jobs
    path = server.path
    with sqlite3.connect(path) as connection:
        if damage == "flipped":
            rows = connection.execute("SELECT id, body FROM records").fetchall()
            changed = [(b[:-40] + bytes([b[-40] ^ 1]) + b[-39:], k) for k, b in rows]
            connection.executemany("UPDATE records SET body = ? WHERE id = ?", changed)
        if damage == "swapped":
            rows = connection.execute("SELECT id, body FROM records").fetchall()
            bodies = [body for _, body in rows[1:] + rows[:1]]
            pairs = [(body, key) for body, (key, _) in zip(bodies, rows, strict=True)]
            connection.executemany("UPDATE records SET body = ? WHERE id = ?", pairs)
    connection.close()
    content = path.read_bytes()
    if damage == "garbage":
        path.write_bytes(b"garbage" * 4096)
    elif damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "a directory":
        path.unlink()
        path.mkdir()
    assert server.read(FILES).jobs == wanted
    assert len(server.parsed) == 30
    if damage != "a directory":
        assert server.read(FILES).jobs == wanted
        assert server.parsed == []


def test_least_recently_used_records_leave_above_the_size_limit(tmp_path: Path) -> None:
    path = tmp_path / "parsed.sqlite"
    old = DiskParseCache(path, 100_000)
    old.put({"old-1": b"x" * 20_000, "old-2": b"y" * 20_000})
    old.close()
    new = DiskParseCache(path, 100_000)
    assert new.get(["old-1"])
    new.put({f"new-{n}": bytes(20_000) for n in range(4)})
    found = new.get(["old-1", "old-2", "new-0", "new-1", "new-2", "new-3"])
    assert "old-2" not in found
    assert sum(map(len, found.values())) <= 80_000
    for round_ in range(40):
        new.put({f"more-{round_}": bytes(20_000)})
    new.close()
    assert path.stat().st_size < 400_000


def test_cache_file_is_readable_by_its_user_only(tmp_path: Path) -> None:
    Restarted(tmp_path).read(FILES)
    assert stat.S_IMODE((tmp_path / "parsed.sqlite").stat().st_mode) == 0o600


def test_read_of_an_empty_cache_creates_no_file(tmp_path: Path) -> None:
    store = DiskParseCache(tmp_path / "data" / "parsed.sqlite", MIB)
    assert store.get(["a"]) == {}
    assert list(tmp_path.iterdir()) == []
