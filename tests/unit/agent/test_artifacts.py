"""Artifacts: what recorded cases of Nomad leave behind, and archives that try to write elsewhere.

Everything is real: the server, the confined process, the archives.
"""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import io
import json
import os
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from backports import zstd

from agent.artifacts.checksums import listed_checksum
from agent.artifacts.plan import FetchError, FetchLimits
from agent.artifacts.source import read_source
from agent.artifacts.unpack import link_stays_inside
from agent.hooks import artifacts
from agent.hooks.base import SetupError, TaskSetup
from orchgit.model.task import TaskArtifact
from orchgit.wire.https import HttpTls, serving_context
from tests.support.artifact_server import (
    ArtifactServer,
    artifact_server,
    packed,
    tar,
    zipped,
)
from tests.support.certificates import make_tls_files
from tests.unit.agent.test_hooks import new_setup

HAS_LANDLOCK = ctypes.CDLL(None).syscall(444, None, 0, 1) > 0
CASES: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "golden/agent/artifacts.json").read_text(encoding="utf-8")
)
REFUSED_AT_REGISTRATION = {name for name, case in CASES.items() if case["outcome"] == "refused"}
LINKS_ARE_MADE = {"archive_link_tar_gz", "archive_hard_tar_gz"}
"""Nomad leaves an empty file for each link."""
NOTHING_IS_DONE_THERE = {"subdir_file", "subdir_on_file"}
"""Nomad ends well with nothing downloaded; here it is an error."""
LEADS_OUT = {"archive_linkabs_tar_gz", "archive_linkout_tar_gz"}
OTHER_MODE = {"archive_mode_file_gz", "mode_file_xz_single", "mode_file_mode_bits_zip_single"}
"""Nomad's 0622, which nobody but the owner may read, is 0644 here."""
OTHER_AGENT = {"http_options_become_query", "http_src_nomad_env"}
"""The echoed User-Agent is the program's own."""
SAME = sorted(
    set(CASES) - REFUSED_AT_REGISTRATION - LINKS_ARE_MADE - NOTHING_IS_DONE_THERE - LEADS_OUT
)


@pytest.fixture(scope="module")
def served() -> Iterator[ArtifactServer]:
    with artifact_server() as server:
        yield server


def fetch_all(
    path: Path,
    blocks: list[TaskArtifact],
    limits: FetchLimits | None = None,
    **task: Any,
) -> TaskSetup:
    setup = new_setup(path, artifacts=blocks, **task)
    setup.fetch_limits = limits or FetchLimits()
    asyncio.run(artifacts.prepare(setup))
    return setup


def fetch(path: Path, source: str, limits: FetchLimits | None = None, **artifact: Any) -> TaskSetup:
    return fetch_all(path, [TaskArtifact(getter_source=source, **artifact)], limits)


def left_in(root: Path) -> dict[str, dict[str, str]]:
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        mode = f"0o{stat.S_IMODE(path.lstat().st_mode):o}"
        if path.is_dir():
            found[f"{name}/"] = {"kind": "dir", "mode": mode}
        else:
            found[name] = {
                "kind": "file",
                "mode": mode,
                "text": path.read_bytes().decode("utf-8", "replace"),
            }
    return found


def from_recording(setup: TaskSetup) -> dict[str, dict[str, str]]:
    """What lies in the allocation's directory, in the recording's names."""
    own = left_in(setup.paths.task_dir.parent)
    fixed = {f"web/{name}/" for name in ("local", "secrets", "tmp", "private")}
    fixed |= {"web/", "alloc/", *(f"alloc/{name}/" for name in ("data", "logs", "tmp"))}
    return {
        name.replace("web/", "t/", 1): found for name, found in own.items() if name not in fixed
    }


@pytest.mark.parametrize("name", SAME)
def test_recorded_case_leaves_the_same_files(
    tmp_path: Path, served: ArtifactServer, name: str
) -> None:
    case = CASES[name]
    text = json.dumps(case).replace("127.0.0.1:15405", served.address.removeprefix("http://"))
    here = json.loads(text.replace("job=t\\n", "job=web\\n"))
    blocks = [
        TaskArtifact(
            getter_source=one["GetterSource"],
            getter_options=one.get("GetterOptions"),
            getter_headers=one.get("GetterHeaders"),
            getter_mode=one.get("GetterMode", "any"),
            relative_dest=one.get("RelativeDest", "local/"),
        )
        for one in here["artifacts"]
    ]
    if case["outcome"] != "complete":
        setup = new_setup(tmp_path, artifacts=blocks, env=here["env"], meta=here["meta"])
        with pytest.raises(SetupError, match="failed to download artifact"):
            asyncio.run(artifacts.prepare(setup))
        assert from_recording(setup) == {}
        return
    setup = fetch_all(tmp_path, blocks, env=here["env"], meta=here["meta"])
    wanted = {
        path: {key: value for key, value in found.items() if key != "uid"}
        for path, found in here["files"].items()
        if path != "alloc/container/"
    }
    found = from_recording(setup)
    if name in OTHER_MODE:
        wanted["t/local/o.txt"]["mode"] = "0o644"
    if name in OTHER_AGENT:
        wanted["t/local/echo"]["text"] = wanted["t/local/echo"]["text"].replace(
            "Go-http-client/1.1", "orchgit"
        )
    for path, one in wanted.items():
        if "text" not in one:  # binary ones are compared by being there
            found.get(path, {}).pop("text", None)
    assert found == wanted
    assert not list((setup.paths.task_dir / "private").iterdir())


# -- archives that try to write elsewhere --------------------------------------------------------


def deep_links() -> list[tuple[str, str, int, bytes]]:
    """CVE-2025-4517: links between names so long that the whole path is over what the system
    resolves, which a check by text then takes for inside."""
    long, entries, path = "d" * 240, [], ""
    for letter in "abcdefghijklmnop":
        entries.append((f"{path}{long}", "d", 0o755, b""))
        entries.append((f"{path}{letter}", "l", 0o777, long.encode()))
        path += f"{long}/"
    climb = "/".join("abcdefghijklmnop") + "/" + "l" * 254
    entries.append((climb, "l", 0o777, b"../" * 16))
    entries.append(("escape", "l", 0o777, f"{climb}/../../../../../victim".encode()))
    entries.append(("escape/x", "f", 0o644, b"evil"))
    return entries


ESCAPES = {
    "cve_2025_4517": deep_links(),
    "dot_dot": [("a/../../x", "f", 0o644, b"evil")],
    "absolute_link": [("l", "l", 0o777, b"/"), ("l/x", "f", 0o644, b"evil")],
    "link_up": [("l", "l", 0o777, b"../.."), ("l/x", "f", 0o644, b"evil")],
    "link_through_links": [
        ("d", "l", 0o777, b"."),
        ("up", "l", 0o777, b"d/d/d/../../.."),
        ("up/x", "f", 0o644, b"evil"),
    ],
    "write_through_inner_link": [
        ("real", "d", 0o755, b""),
        ("l", "l", 0o777, b"real"),
        ("l/x", "f", 0o644, b"evil"),
    ],
    "link_moved_up": [
        ("a/b", "d", 0o755, b""),
        ("a/b/l", "l", 0o777, b"../.."),
        ("a/b/l/../x", "f", 0o644, b"evil"),
    ],
    "hard_link_outside": [("h", "h", 0o644, b"/etc/passwd")],
    "hard_link_up": [("h", "h", 0o644, b"../../../etc/passwd")],
    "hard_link_to_link": [("l", "l", 0o777, b"a"), ("h", "h", 0o644, b"l")],
    "hard_link_to_later": [("h", "h", 0o644, b"a"), ("a", "f", 0o644, b"x")],
    "pipe": [("p", "p", 0o644, b"")],
    "file_and_directory": [("a", "d", 0o755, b""), ("a", "f", 0o644, b"x")],
}


@pytest.mark.parametrize("name", ESCAPES)
def test_archive_that_leads_out_is_refused_and_leaves_nothing(
    tmp_path: Path, served: ArtifactServer, name: str
) -> None:
    served.files["evil.tar"] = tar(ESCAPES[name])
    before = {path for path in tmp_path.parent.rglob("*") if path.name == "x"}
    with pytest.raises(SetupError, match="failed to download artifact"):
        fetch(tmp_path / "t", f"{served.address}/evil.tar")
    assert from_recording(new_setup(tmp_path / "t")) == {}
    assert {path for path in tmp_path.parent.rglob("*") if path.name == "x"} == before


def test_zip_whose_link_leads_out_is_refused(tmp_path: Path, served: ArtifactServer) -> None:
    served.files["evil2.zip"] = zipped([("l", "l", 0o777, b"../../x")])
    with pytest.raises(SetupError, match="is not inside"):
        fetch(tmp_path, f"{served.address}/evil2.zip")


@pytest.mark.parametrize(
    ("depth", "target", "inside"),
    [
        (0, "a", True),
        (1, "../a", True),
        (2, "../../a/b", True),
        (1, "./../a", True),
        (0, "..", False),
        (1, "../../a", False),
        (0, "a/..", False),
        (3, "a/../b", False),
        (0, "/a", False),
        (0, "", False),
    ],
)
def test_link_may_climb_only_at_its_start(depth: int, target: str, inside: bool) -> None:
    assert link_stays_inside(depth, target) is inside


def test_links_inside_are_made(tmp_path: Path, served: ArtifactServer) -> None:
    served.files["links.tar"] = tar(
        [
            ("a.txt", "f", 0o640, b"a\n"),
            ("s/up", "l", 0o777, b"../a.txt"),
            ("hard", "h", 0o644, b"a.txt"),
        ]
    )
    local = fetch(tmp_path, f"{served.address}/links.tar").paths.local
    assert (local / "s/up").readlink() == Path("../a.txt")
    assert (local / "hard").read_bytes() == b"a\n"
    assert stat.S_IMODE((local / "hard").stat().st_mode) == 0o640
    assert (local / "hard").stat().st_nlink == 1


def test_files_belong_to_the_agent_or_to_the_tasks_user(
    tmp_path: Path, served: ArtifactServer
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    for chown, owner in ((False, 0), (True, 65534)):
        block = TaskArtifact(getter_source=f"{served.address}/a.tar", chown=chown)
        local = fetch_all(tmp_path / str(chown), [block], user="65534").paths.local
        assert {path.lstat().st_uid for path in local.rglob("*")} == {owner}


def test_directory_that_the_task_replaced_by_a_link_is_not_written_through(
    tmp_path: Path, served: ArtifactServer
) -> None:
    setup = new_setup(tmp_path, artifacts=[TaskArtifact(getter_source=f"{served.address}/a.tar")])
    outside = tmp_path / "outside"
    outside.mkdir()
    (setup.paths.local / "bin").symlink_to(outside)
    (setup.paths.local / "top.txt").symlink_to(outside / "victim")
    with pytest.raises(SetupError, match="failed to download artifact"):
        asyncio.run(artifacts.prepare(setup))
    assert not list(outside.iterdir())
    (setup.paths.local / "bin").unlink()
    asyncio.run(artifacts.prepare(setup))
    assert (setup.paths.local / "top.txt").read_bytes() == b"top\n"
    assert not (setup.paths.local / "top.txt").is_symlink()


# -- limits --------------------------------------------------------------------------------------


def test_archive_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, served: ArtifactServer
) -> None:
    served.files["bomb.tar.gz"] = packed(("zeros", "f", 0o644, bytes(70 << 20)))
    with pytest.raises(SetupError, match="more than 200 times its size"):
        fetch(tmp_path / "a", f"{served.address}/bomb.tar.gz")
    for name in ("bomb.tar.gz", "a.zip"):
        limits = FetchLimits(max_unpacked_bytes=20)
        with pytest.raises(SetupError, match="more than 20 bytes"):
            fetch(tmp_path / name, f"{served.address}/{name}", limits)


def test_holes_of_a_sparse_file_count(tmp_path: Path, served: ArtifactServer) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("holes")
        member.pax_headers = {
            "GNU.sparse.major": "0",
            "GNU.sparse.minor": "1",
            "GNU.sparse.name": "holes",
            "GNU.sparse.size": str(1 << 40),
            "GNU.sparse.numblocks": "1",
            "GNU.sparse.map": "0,1",
        }
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    served.files["sparse.tar"] = out.getvalue()
    with pytest.raises(SetupError, match="times its size"):
        fetch(tmp_path, f"{served.address}/sparse.tar")


def test_header_of_gigabytes_is_refused(tmp_path: Path, served: ArtifactServer) -> None:
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 8 << 30
    served.files["header.tar"] = header.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)
    with pytest.raises(SetupError, match="failed to download artifact"):
        fetch(tmp_path, f"{served.address}/header.tar")


def test_download_larger_than_the_limit_is_refused(tmp_path: Path, served: ArtifactServer) -> None:
    with pytest.raises(SetupError, match="larger than 5 bytes"):
        fetch(tmp_path, f"{served.address}/plain.txt", FetchLimits(max_download_bytes=5))


def test_body_that_ends_early_is_refused(tmp_path: Path, served: ArtifactServer) -> None:
    with pytest.raises(SetupError, match="ended after 10 of 1000 bytes") as cut:
        fetch(tmp_path, f"{served.address}/cut.txt")
    assert cut.value.recoverable


# -- redirects -----------------------------------------------------------------------------------


def test_headers_stay_with_their_origin(tmp_path: Path, served: ArtifactServer) -> None:
    with artifact_server() as other:
        served.redirects["/same"] = "/plain.txt"
        served.redirects["/away"] = f"{other.address}/plain.txt"
        login = served.address.replace("://", "://user:password@")
        headers = {"X-Token": "secret", "Authorization": "Bearer secret"}
        for path in ("same", "away"):
            fetch(
                tmp_path / path,
                f"{served.address}/{path}?filename=x",
                getter_headers=headers,
            )
            fetch(tmp_path / f"{path}2", f"{login}/{path}?filename=x")
        assert "secret" not in str(other.seen)
        assert "Authorization" not in other.seen["/plain.txt"]
        assert served.seen["/away"]["Authorization"].startswith("Basic")
    assert served.seen["/plain.txt"]["Authorization"].startswith("Basic")


def test_redirect_to_a_file_is_refused(tmp_path: Path, served: ArtifactServer) -> None:
    for number, target in enumerate(("file:///etc/passwd", "ftp://127.0.0.1/x")):
        served.redirects["/elsewhere"] = target
        with pytest.raises(SetupError, match="failed to download"):
            fetch(tmp_path / str(number), f"{served.address}/elsewhere?filename=x")


def test_certificate_of_an_unknown_authority_is_refused_unless_insecure(tmp_path: Path) -> None:
    files = make_tls_files(tmp_path)
    with artifact_server(serving_context(HttpTls(files))) as secured:
        with pytest.raises(SetupError, match="certificate verify failed"):
            fetch(tmp_path / "a", f"{secured.address}/a.zip")
        local = fetch(tmp_path / "b", f"{secured.address}/a.zip", getter_insecure=True).paths.local
        assert (local / "top.txt").exists()


# -- options -------------------------------------------------------------------------------------


def test_checksum_in_the_address_is_verified(tmp_path: Path, served: ArtifactServer) -> None:
    right = hashlib.sha256(served.files["plain.txt"]).hexdigest()
    for checksum in (f"sha256:{right}", right):
        local = fetch(
            tmp_path / checksum[:8], f"{served.address}/plain.txt?checksum={checksum}"
        ).paths.local
        assert (local / "plain.txt").exists()
    with pytest.raises(SetupError, match="its sha256 is"):
        fetch(tmp_path / "wrong", f"{served.address}/plain.txt?checksum=sha256:{'0' * 64}")
    with pytest.raises(SetupError, match="its sha256 is"):
        fetch(
            tmp_path / "both",
            f"{served.address}/plain.txt?checksum=sha256:{'0' * 64}",
            getter_options={"checksum": f"sha256:{right}"},
        )
    assert "checksum" not in str(served.seen)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("http://h/x?checksum=crc:1", {}, 'checksum type "crc" is not known'),
        ("http://h/x?checksum=file:/etc/sums", {}, "read from http:// or https://"),
        ("http://h/x?archive=rar", {}, "is no known format"),
        ("http://h/x", {"filename": "a/b"}, "is no name of a file"),
        ("http://h/x.tar", {"filename": "a"}, "filename has no effect"),
        ("http://h/", {}, "is no name of a file"),
        ("http://h/x.tar//../y", {}, "leads out of the archive"),
        ("http://h/x", {"ref": "main"}, "for git sources"),
        ("git::https://h/x.git", {"depth": "x"}, "must be a whole number"),
        ("git::https://h/x.git", {"ref": "--upload-pack=x"}, "invalid ref"),
        ("git::https://h/x.git", {"sshkey": "!!"}, "not the base64"),
        ("git::https://h/x.git", {"checksum": "md5:0"}, "no effect on a git repository"),
        ("git::file:///x.git", {}, "git sources are fetched from"),
        ("hg::https://h/x", {}, "Mercurial .* not supported"),
        ("s3::https://h/b/x", {"aws_access_key_id": "a"}, "go together"),
        ("s3::https://h/b/x", {"aws_profile": "a"}, "no profiles"),
        ("s3::https://h/b/x", {"color": "red"}, 'option "color" has no effect'),
        ("ftp://h/x", {}, "download not supported for scheme 'ftp'"),
        ("/etc/passwd", {}, "files of the node"),
        ("http://h:99999/x", {}, "its address cannot be read"),
        ("http:///x", {}, "http sources are fetched from"),
    ],
)
def test_option_without_effect_is_refused(
    source: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(FetchError, match=message):
        read_source(source, options, {}, "any", False, FetchLimits())


@pytest.mark.parametrize(
    ("source", "getter", "url", "subdir"),
    [
        ("github.com/a/b", "git", "https://github.com/a/b.git", ""),
        ("github.com/a/b//sub?ref=v1", "git", "https://github.com/a/b.git", "sub"),
        ("github.com/a/b.git/deep", "git", "https://github.com/a/b.git", "deep"),
        ("git@h.example:a/b.git", "git", "ssh://git@h.example/a/b.git", ""),
        ("git::git@h.example:a/b.git//x", "git", "ssh://git@h.example/a/b.git", "x"),
        ("git@h.example:/srv/b.git//x", "git", "ssh://git@h.example/srv/b.git", "x"),
        ("b.s3.amazonaws.com/k/l", "s3", "https://s3.amazonaws.com/b/k/l", ""),
        (
            "www.googleapis.com/storage/v1/b/k",
            "gcs",
            "https://www.googleapis.com/storage/v1/b/k",
            "",
        ),
        ("git::ssh://git@h:22/a//b", "git", "ssh://git@h:22/a", "b"),
    ],
)
def test_short_form_is_read_as_the_address_it_stands_for(
    source: str, getter: str, url: str, subdir: str
) -> None:
    plan = read_source(source, {}, {}, "any", False, FetchLimits())
    assert (plan.getter, plan.url, plan.subdir) == (getter, url, subdir)


def test_zstd_archive_is_unpacked(tmp_path: Path, served: ArtifactServer) -> None:
    served.files["a.tar.zst"] = zstd.compress(served.files["a.tar"])
    served.files["one.txt.zst"] = zstd.compress(b"one\n")
    fetch(tmp_path / "a", f"{served.address}/a.tar.zst")
    local = fetch(
        tmp_path / "b",
        f"{served.address}/one.txt.zst",
        getter_mode="file",
        relative_dest="local/one",
    ).paths.local
    assert (local / "one").read_bytes() == b"one\n"
    assert (tmp_path / "a" / from_task(tmp_path / "a")).exists()


def from_task(root: Path) -> Path:
    return next(path.relative_to(root) for path in root.rglob("top.txt"))


@pytest.mark.parametrize(
    "line",
    ["{hex}  other.txt\n{hex} *plain.txt", "SHA256 (./plain.txt) = {hex}", "{hex}", "sha256:{hex}"],
)
def test_checksum_is_found_in_a_list(line: str) -> None:
    digest = "069f7fa9428dda9262a0d6f4f95726b3c5071859bb79391d8aa5da39c7091e45"
    text = f"# a comment\n{line.format(hex=digest)}\n"
    assert listed_checksum(text, "plain.txt") == f"sha256:{digest}"


def test_file_must_be_in_the_list_of_checksums(tmp_path: Path, served: ArtifactServer) -> None:
    right = hashlib.sha256(served.files["plain.txt"]).hexdigest()
    sums = f"{served.address}/SHA256SUMS"
    source = f"{served.address}/plain.txt?checksum=file:{sums}"
    served.files["SHA256SUMS"] = f"{right}  plain.txt\n".encode()
    fetch(tmp_path / "a", source)
    served.files["SHA256SUMS"] = f"{'0' * 64}  plain.txt\n".encode()
    with pytest.raises(SetupError, match="Checksums did not match"):
        fetch(tmp_path / "b", source)
    served.files["SHA256SUMS"] = f"{right}  other.txt\n".encode()
    with pytest.raises(SetupError, match="does not list"):
        fetch(tmp_path / "c", source)


def test_mode_dir_of_a_single_file_is_refused() -> None:
    with pytest.raises(FetchError, match='mode = "dir" needs an archive'):
        read_source("http://h/x", {}, {}, "dir", False, FetchLimits())


# -- confinement ---------------------------------------------------------------------------------

PROBE = """
import json, os, subprocess, sys
from agent.artifacts.confine import confine
here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
user = (65534, 65534) if sys.argv[1] == "nobody" else None
confine(here, user, 1000)
def tried(work):
    try:
        work()
    except OSError as error:
        return type(error).__name__
    return "done"
def large():
    with open("large", "wb") as file:
        file.write(bytes(2000))
print(json.dumps({
    "inside": tried(lambda: open("inside", "w").close()),
    "outside": tried(lambda: open(sys.argv[2] + "/outside", "w").close()),
    "secret": tried(lambda: open(sys.argv[2] + "/secret").close()),
    "system": tried(lambda: open("/etc/hosts").close()),
    "program": tried(lambda: subprocess.run(["/bin/true"])),
    "large": tried(large),
    "user": os.geteuid(),
}))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize("user", ["nobody", "same"])
def test_confined_process_reaches_its_directory_only(tmp_path: Path, user: str) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for each in (inside, outside):
        each.mkdir()
        each.chmod(0o777)
    (outside / "secret").write_text("secret")
    (outside / "secret").chmod(0o600)
    command = [sys.executable, "-I", "-c", PROBE, user, str(outside)]
    done = subprocess.run(command, cwd=inside, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    if not HAS_LANDLOCK:
        pytest.skip("this kernel has no Landlock")
    denied = "PermissionError"
    assert found["inside"] == found["system"] == "done"
    assert (found["outside"], found["secret"], found["program"]) in (
        (denied, denied, denied),
        (denied, denied, "BlockingIOError"),
    )
    assert found["large"] == "OSError"
    assert found["user"] == (65534 if user == "nobody" else 0)
