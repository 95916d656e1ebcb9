"""What is done in a task's directory before it starts; a task may have prepared traps there."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import hashlib
import http.server
import os
import stat
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.hooks import (
    alloc_dir,
    artifacts,
    csi_plugin,
    dispatch_payload,
    previous_alloc,
    task_dir,
    templates,
    volumes,
)
from agent.hooks.base import SetupError, TaskSetup, VolumeSource
from agent.hooks.files import write_inside
from agent.identities.task_identities import TaskIdentities, no_identities
from agent.paths import AllocPaths, csi_socket_directory, open_inside
from agent.templates.cluster_reads import ClusterReads, Reader
from agent.templates.settings import NodeTemplates
from agent.templates.task_templates import TaskTemplates
from orchgit.clock import FakeClock
from orchgit.errors import NotAllowedError, NotFoundError
from orchgit.model.group import EphemeralDisk
from orchgit.model.node import ClientHostVolume
from orchgit.model.task import DispatchPayload, Task, TaskArtifact, Template
from orchgit.model.volume import VolumeMount, VolumeRequest
from tests.support.factories import make_allocation, make_group, make_job, make_node, make_task
from tests.support.scratch import scratch_directory
from tests.support.small_disk import small_disk


def new_setup(
    path: Path, isolation: str = "none", payload: str | None = None, **task: Any
) -> TaskSetup:
    made: Task = make_task(**task)
    clock = FakeClock()
    job = make_job(task_groups=[make_group(tasks=[made])], payload=payload)
    paths = AllocPaths(path / "alloc")
    alloc_dir.create(paths)
    setup = TaskSetup(
        node=make_node(),
        region="global",
        job=job,
        group=job.task_groups[0],
        task=made,
        alloc=make_allocation(job),
        paths=paths.task("web"),
        volume_sources={},
        host_env={},
        isolation=isolation,
        clock=clock,
        emit=lambda _event: None,
        templates=NodeTemplates(),
        task_templates=TaskTemplates(ClusterReads(), Reader("alloc", "web", "default", "web")),
        identities=TaskIdentities("alloc", made.name, no_identities, clock),
    )
    asyncio.run(task_dir.prepare(setup))
    return setup


def place_templates(setup: TaskSetup) -> None:
    async def place() -> None:
        try:
            await templates.prepare(setup)
        finally:
            await setup.templates.renderer.close()

    asyncio.run(place())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- directories -------------------------------------------------------------------------------


def test_secrets_are_kept_from_the_nodes_other_users(tmp_path: Path) -> None:
    plain = new_setup(tmp_path / "a").paths
    assert (mode(plain.secrets), mode(plain.task_dir), mode(plain.local)) == (0o700, 0o1777, 0o777)
    isolated = new_setup(tmp_path / "b", isolation="image").paths
    assert (mode(isolated.secrets), mode(isolated.task_dir)) == (0o777, 0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_secrets_belong_to_the_tasks_user(tmp_path: Path) -> None:
    paths = new_setup(tmp_path, user="nobody").paths
    assert paths.secrets.stat().st_uid != 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_agent_that_is_not_root_refuses_another_user() -> None:
    with scratch_directory() as directory:
        directory.chmod(0o777)
        os.seteuid(61234)
        try:
            with pytest.raises(SetupError, match='cannot run as "nobody": the agent does not run'):
                new_setup(directory / "made", user="nobody")
        finally:
            os.seteuid(0)


def test_second_attempt_finds_the_directories_as_they_are(tmp_path: Path) -> None:
    setup = new_setup(tmp_path)
    setup.paths.local.chmod(0o700)
    asyncio.run(task_dir.prepare(setup))
    assert mode(setup.paths.local) == 0o700


# -- reaching into directories -----------------------------------------------------------------


@pytest.mark.parametrize("path", ["../x", "a/../../x", "link/x", "file"])
def test_reading_never_leaves_the_directory(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "x").write_text("outside")
    (root / "link").symlink_to(tmp_path)
    (root / "file").symlink_to(tmp_path / "x")
    with pytest.raises(NotAllowedError):
        open_inside(root, path)


def test_reading_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in ("none", "file/x"):
        with pytest.raises(NotFoundError):
            open_inside(tmp_path, path)


def test_writing_follows_no_link(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "out").symlink_to(tmp_path)
    (root / "file").symlink_to(tmp_path / "victim")
    with pytest.raises(SetupError, match="cannot write"):
        write_inside(root, "out/x", b"", 0o644)
    with pytest.raises(SetupError, match="must name a file inside"):
        write_inside(root, "../x", b"", 0o644)
    write_inside(root, "file", b"replaced", 0o600)
    assert not (tmp_path / "victim").exists()
    assert (root / "file").read_text() == "replaced"
    assert mode(root / "file") == 0o600


def test_pipe_in_the_way_does_not_block_the_agent(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".file.orchgit")
    write_inside(tmp_path, "file", b"written", 0o600)
    assert (tmp_path / "file").read_bytes() == b"written"


# -- payload, templates, volumes ---------------------------------------------------------------


def test_dispatch_payload(tmp_path: Path) -> None:
    payload = base64.b64encode(b"\x00data").decode()
    task = {"dispatch_payload": DispatchPayload(file="in/put")}
    setup = new_setup(tmp_path, payload=payload, **task)
    asyncio.run(dispatch_payload.prepare(setup))
    assert (setup.paths.local / "in/put").read_bytes() == b"\x00data"
    bad = new_setup(tmp_path / "b", payload="%%%", **task)
    with pytest.raises(SetupError, match="cannot read the dispatch payload"):
        asyncio.run(dispatch_payload.prepare(bad))


@pytest.mark.parametrize(
    ("isolation", "destination", "lands"),
    [
        ("none", "local/a.conf", "local/a.conf"),
        ("none", "${NOMAD_SECRETS_DIR}/key", "secrets/key"),
        ("none", "${NOMAD_ALLOC_DIR}/x", "../alloc/x"),
        ("image", "${NOMAD_SECRETS_DIR}/key", "secrets/key"),
        ("image", "${NOMAD_ALLOC_DIR}/x", "../alloc/x"),
        ("image", "/local/a", "local/a"),
    ],
)
def test_template_is_written_inside_the_task_directory_only(
    tmp_path: Path, isolation: str, destination: str, lands: str
) -> None:
    template = Template(
        embedded_tmpl="{{ env `NOMAD_TASK_NAME` }}", dest_path=destination, perms="600"
    )
    setup = new_setup(tmp_path, isolation, templates=[template])
    place_templates(setup)
    file = setup.paths.task_dir / lands
    assert file.read_text() == "web"
    assert mode(file) == 0o600


def test_template_of_variables_and_one_from_a_file(tmp_path: Path) -> None:
    first = Template(embedded_tmpl="A={{ env `NOMAD_DC` }}", dest_path="local/env", envvars=True)
    second = Template(source_path="local/in.tpl", dest_path="local/out")
    setup = new_setup(tmp_path, templates=[first, second])
    (setup.paths.local / "in.tpl").write_text("{{ env `A` }}!")
    place_templates(setup)
    assert setup.environment().env["A"] == "dc1"
    assert (setup.paths.local / "out").read_text() == "dc1!"


@pytest.mark.parametrize(
    "template",
    [
        Template(embedded_tmpl="x", dest_path="../../out"),
        Template(embedded_tmpl="{{ file `../../../etc/passwd` }}", dest_path="local/x"),
        Template(source_path="local/link", dest_path="local/x"),
        Template(embedded_tmpl="{{ nope }}", dest_path="local/x"),
        Template(embedded_tmpl="x", dest_path="local/x", perms="rw"),
    ],
)
def test_templates_that_are_refused(tmp_path: Path, template: Template) -> None:
    setup = new_setup(tmp_path, templates=[template])
    (setup.paths.local / "link").symlink_to("/etc/passwd")
    with pytest.raises(SetupError):
        place_templates(setup)


def test_volumes_are_found_and_mounted(tmp_path: Path) -> None:
    node = make_node(
        host_volumes={
            "disk": ClientHostVolume("disk", "/srv/disk"),
            "per[2]": ClientHostVolume("per[2]", "/srv/per", read_only=True),
        }
    )
    requests = {
        "data": VolumeRequest(name="data", type="host", source="disk"),
        "own": VolumeRequest(name="own", type="host", source="per", per_alloc=True),
    }
    group = make_group(volumes=requests)
    alloc = make_allocation(make_job(task_groups=[group]), index=2)
    sources = volumes.find_sources(group, alloc, node)
    assert sources == {
        "data": VolumeSource("/srv/disk", False),
        "own": VolumeSource("/srv/per", True),
    }
    mounts = [VolumeMount("data", "/data", True), VolumeMount("own", "/own")]
    setup = new_setup(tmp_path, volume_mounts=mounts)
    setup.volume_sources = sources
    asyncio.run(volumes.prepare(setup))
    assert [(m.host_path, m.task_path, m.read_only) for m in setup.mounts] == [
        ("/srv/disk", "/data", True),
        ("/srv/per", "/own", True),
    ]
    setup.volume_sources = {}
    with pytest.raises(SetupError, match="the group has no such volume"):
        asyncio.run(volumes.prepare(setup))


def test_sticky_disk_is_taken_over(tmp_path: Path) -> None:
    group = make_group(ephemeral_disk=EphemeralDisk(sticky=True))
    old, new = AllocPaths(tmp_path / "old"), AllocPaths(tmp_path / "new")
    for paths in (old, new):
        alloc_dir.create(paths)
    (old.shared / "data/kept").write_text("1")
    old.task("web").local.mkdir(parents=True)
    (old.task("web").local / "too").write_text("2")
    asyncio.run(previous_alloc.take_over(group, old, new))
    assert (new.shared / "data/kept").read_text() == "1"
    assert (new.task("web").local / "too").read_text() == "2"
    asyncio.run(previous_alloc.take_over(make_group(), new, old))
    assert not (old.shared / "data/kept").exists()


def test_directory_that_a_task_made_a_link_is_not_taken_over(tmp_path: Path) -> None:
    group = make_group(ephemeral_disk=EphemeralDisk(sticky=True))
    old, new = AllocPaths(tmp_path / "old"), AllocPaths(tmp_path / "new")
    for paths in (old, new):
        alloc_dir.create(paths)
    (tmp_path / "elsewhere").mkdir()
    (old.shared / "data").rmdir()
    (old.shared / "data").symlink_to(tmp_path / "elsewhere")
    asyncio.run(previous_alloc.take_over(group, old, new))
    assert not (new.shared / "data").is_symlink()
    assert (new.shared / "data").is_dir()


# -- artifacts ---------------------------------------------------------------------------------


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """(address, directory served)"""
    served = tmp_path / "served"
    served.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(served))

        def log_message(self, format: str, *arguments: Any) -> None:
            """Silence."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", served
    server.shutdown()
    server.server_close()
    thread.join()


def fetch(path: Path, **artifact: Any) -> TaskSetup:
    setup = new_setup(path, artifacts=[TaskArtifact(**artifact)])
    asyncio.run(artifacts.prepare(setup))
    return setup


def test_file_is_fetched_and_verified(tmp_path: Path, web: tuple[str, Path]) -> None:
    address, served = web
    (served / "tool").write_bytes(b"bin")
    checksum = f"sha256:{hashlib.sha256(b'bin').hexdigest()}"
    setup = fetch(tmp_path, getter_source=f"{address}/tool", getter_options={"checksum": checksum})
    assert (setup.paths.local / "tool").read_bytes() == b"bin"
    renamed = fetch(
        tmp_path / "b",
        getter_source=f"{address}/tool",
        getter_mode="file",
        relative_dest="local/x/y",
    )
    assert (renamed.paths.local / "x/y").read_bytes() == b"bin"


def test_archive_is_unpacked_inside_only(tmp_path: Path, web: tuple[str, Path]) -> None:
    address, served = web
    (tmp_path / "inner").write_text("in")
    with tarfile.open(served / "good.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "inner", "dir/inner")
    setup = fetch(tmp_path / "a", getter_source=f"{address}/good.tar.gz")
    assert (setup.paths.local / "dir/inner").read_text() == "in"
    with tarfile.open(served / "evil.tar", "w") as tar:
        tar.add(tmp_path / "inner", "../../escaped")
    with pytest.raises(SetupError, match="failed to download artifact"):
        fetch(tmp_path / "b", getter_source=f"{address}/evil.tar")


def test_artifacts_that_are_refused(tmp_path: Path, web: tuple[str, Path]) -> None:
    address, served = web
    (served / "tool").write_bytes(b"bin")
    with pytest.raises(SetupError, match="not supported for scheme 'file'"):
        fetch(tmp_path / "a", getter_source="file:///etc/passwd")
    with pytest.raises(SetupError, match="its md5 is") as wrong:
        fetch(tmp_path / "b", getter_source=f"{address}/tool", getter_options={"checksum": "md5:0"})
    assert wrong.value.recoverable  # by the restart policy, as recorded
    with pytest.raises(SetupError, match="404") as missing:
        fetch(tmp_path / "c", getter_source=f"{address}/none?token=secret")
    assert missing.value.recoverable
    assert "secret" not in str(missing.value)
    with pytest.raises(SetupError, match="leads out of the task directory"):
        fetch(tmp_path / "d", getter_source=f"{address}/tool", relative_dest="../../x")


_MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 8:2 / /opt rw - ext4 /dev/sdb rw
31 30 8:3 / /opt/my\\040data rw shared:9 master:1 - ext4 /dev/sdc rw
"""


@pytest.mark.parametrize(
    ("path", "isolation", "why"),
    [
        ("/var/csi", "image", ""),
        ("/optional/csi", "image", ""),
        ("/opt/csi", "image", "run `mount --make-shared /opt` on the node"),
        ("/opt/my data/csi", "image", ""),
        ("/var/csi", "chroot", "run it with docker, podman or raw_exec"),
    ],
)
def test_csi_plugin_in_a_container_needs_a_shared_mount(
    path: str, isolation: str, why: str
) -> None:
    found = csi_plugin.why_mounts_stay_inside(Path(path), isolation, _MOUNTS)
    assert bool(found) == bool(why)
    assert why in found


def test_csi_plugin_that_mounts_is_refused_in_a_chroot() -> None:
    config = {"ID": "disk", "Type": "node"}
    with scratch_directory() as directory:  # a socket's path may not be as long as pytest's
        setup = new_setup(directory / "node" / "task", csi_plugin_config=config)
        asyncio.run(csi_plugin.prepare(setup))
        endpoint = setup.environment().env["CSI_ENDPOINT"]
        root = setup.paths.csi_dir
        socket = csi_socket_directory(root, setup.alloc.id, setup.task.name) / "csi.sock"
        assert endpoint == f"unix://{socket}"
        setup = dataclasses.replace(setup, isolation="chroot")
        with pytest.raises(SetupError, match="run it with docker, podman or raw_exec"):
            asyncio.run(csi_plugin.prepare(setup))
        setup.mounts.clear()
        setup.task.csi_plugin_config = {"ID": "disk", "Type": "controller"}
        asyncio.run(csi_plugin.prepare(setup))
    assert setup.environment().env["CSI_ENDPOINT"] == "unix:///csi/csi.sock"
    assert [mount.task_path for mount in setup.mounts] == ["/csi"]


def test_tasks_that_are_one_csi_plugin_have_a_socket_each() -> None:
    config = {"ID": "disk", "Type": "node"}
    endpoints = set()
    with scratch_directory() as root:
        for name, alloc_id in (("a", "1"), ("b", "1"), ("a", "2")):
            setup = new_setup(root / name / alloc_id, csi_plugin_config=config, name=name)
            setup.alloc.id = alloc_id
            asyncio.run(csi_plugin.prepare(setup))
            endpoints.add(Path(setup.environment().env["CSI_ENDPOINT"]).parent.name)
    assert len(endpoints) == 3


def test_csi_socket_whose_path_is_too_long_is_refused(tmp_path: Path) -> None:
    config = {"ID": "disk", "Type": "node"}
    setup = new_setup(tmp_path / ("x" * 60) / "y", csi_plugin_config=config)
    with pytest.raises(SetupError, match="give the agent a shorter data_dir"):
        asyncio.run(csi_plugin.prepare(setup))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
@pytest.mark.parametrize(
    ("name", "way_out"),
    [("secrets/token", "raise `secrets` \\(MB\\)"), ("local/f", "make room on the node")],
)
def test_full_disk_is_told_with_the_way_out_and_leaves_the_old_file(
    tmp_path: Path, name: str, way_out: str
) -> None:
    with small_disk(tmp_path / "task", 1) as disk:
        write_inside(disk.directory, name, b"old", 0o600)
        disk.fill()
        with pytest.raises(SetupError, match=way_out) as full:
            write_inside(disk.directory, name, bytes(100_000), 0o600)
        assert full.value.recoverable
        assert len(list((disk.directory / name).parent.iterdir())) == 1
        assert (disk.directory / name).read_bytes() == b"old"
        disk.free()
        write_inside(disk.directory, name, b"new", 0o600)
        assert (disk.directory / name).read_bytes() == b"new"
