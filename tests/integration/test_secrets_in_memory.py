"""Secrets of tasks lie on a tmpfs of limited size, which goes with the allocation's files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.hooks.secrets_mount import SecretsMounts, unmount_below
from tests.support.driver_rigs import exec_works
from tests.support.polling import until_blocking
from tests.support.server_rig import ServerRig, server_rig
from tests.support.small_disk import small_disk

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")

SCRIPT = """
stat -f -c %T "$NOMAD_SECRETS_DIR" > "$NOMAD_TASK_DIR/kind"
stat -c %a "$NOMAD_SECRETS_DIR" > "$NOMAD_TASK_DIR/mode"
head -c 3000000 /dev/zero > "$NOMAD_SECRETS_DIR/big"
stat -c %s "$NOMAD_SECRETS_DIR/big" > "$NOMAD_TASK_DIR/size"
sleep 600
"""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    drivers = {"drivers": {"raw_exec": {"enabled": True}, "exec": {"enabled": True}}}
    with server_rig(tmp_path_factory.mktemp("secrets"), agent_config=drivers) as rig:
        rig.wait_ready_node()
        yield rig


@pytest.mark.parametrize("driver", ["raw_exec", "exec"])
def test_secrets_are_in_memory_of_the_asked_size_until_the_allocation_is_removed(
    rig: ServerRig, driver: str
) -> None:
    if driver == "exec" and not exec_works():
        pytest.skip("needs crun or runc")
    task = {
        "Name": "t",
        "Driver": driver,
        "Config": {"command": "/bin/sh", "args": ["-c", SCRIPT]},
        "Resources": {"CPU": 20, "MemoryMB": 32, "SecretsMB": 2},
    }
    job = {"ID": f"hides-{driver}", "Type": "batch", "TaskGroups": [{"Name": "g", "Tasks": [task]}]}
    rig.register(job)
    [alloc] = rig.wait_for(
        f"/v1/job/{job['ID']}/allocations",
        lambda found: bool(found) and found[0]["ClientStatus"] == "running",
    )
    directory = Path(rig.agent.config.alloc_root) / alloc["ID"] / "t"
    size = directory / "local" / "size"
    until_blocking(lambda: size.exists() and size.read_text())
    told = {name: (directory / "local" / name).read_text() for name in ("kind", "mode", "size")}
    assert told == {"kind": "tmpfs\n", "mode": "700\n", "size": f"{2 << 20}\n"}
    assert (directory / "secrets").is_mount()
    rig.http.delete(f"/v1/job/{job['ID']}")
    rig.wait_for(f"/v1/allocation/{alloc['ID']}", lambda found: found["ClientStatus"] == "complete")
    assert rig.http.put(f"/v1/client/allocation/{alloc['ID']}/gc").status_code == 200
    assert not directory.exists()
    assert str(directory) not in Path("/proc/self/mountinfo").read_text()


def test_directory_that_became_a_link_is_not_mounted_on(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "secrets").symlink_to("other")
    with pytest.raises(OSError, match="secrets"):
        SecretsMounts(is_possible=True).mount(tmp_path / "secrets", 1, 0o700)
    assert not (tmp_path / "other").is_mount()


def test_mount_of_a_path_with_blanks_is_taken_away(tmp_path: Path) -> None:
    place = tmp_path / "a b" / "secrets"
    place.mkdir(parents=True)
    SecretsMounts(is_possible=True).mount(place, 1, 0o700)
    assert place.is_mount()
    unmount_below(tmp_path)
    assert not place.is_mount()


def test_end_of_all_tasks_unmounts_their_secrets_and_no_disk_of_the_node(tmp_path: Path) -> None:
    alloc_root = tmp_path / "agent" / "alloc"
    with small_disk(alloc_root, 16):
        with server_rig(tmp_path) as rig:
            rig.wait_ready_node()
            config = {"command": "/bin/sleep", "args": ["600"]}
            task = {"Name": "t", "Driver": "raw_exec", "Config": config}
            group = {"Name": "g", "Tasks": [task]}
            rig.register({"ID": "stays", "Type": "batch", "TaskGroups": [group]})
            [alloc] = rig.wait_for(
                "/v1/job/stays/allocations",
                lambda found: bool(found) and found[0]["ClientStatus"] == "running",
            )
            secrets = alloc_root / alloc["ID"] / "t" / "secrets"
            assert secrets.is_mount()
        assert alloc_root.is_mount()
        assert secrets.is_dir()
        assert not secrets.is_mount()
