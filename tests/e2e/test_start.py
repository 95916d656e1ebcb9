"""What stops `orchgit dev` from starting is said in one line, with the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.dev_server import DevServer


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-data-dir", "/proc/nowhere"), "choose another with -data-dir"),
        (("-bind", "0.0.0.0"), "without TLS"),
        (("-config", "/nonexistent.hcl"), "cannot read the configuration /nonexistent.hcl"),
    ],
)
def test_a_start_that_cannot_work_says_why(
    shared_dev: DevServer, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    given = ("dev", "-no-demo", "-port", "0", "-data-dir", str(tmp_path / "data"), *arguments)
    done = shared_dev.cli(*given)
    assert done.code == 1
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_port_or_directory_in_use_is_named(shared_dev: DevServer, tmp_path: Path) -> None:
    port = shared_dev.address.rsplit(":", 1)[1]
    taken = shared_dev.cli("dev", "-no-demo", "-port", port, "-data-dir", str(tmp_path / "data"))
    assert taken.code == 1
    assert "choose another port" in taken.err
    again = shared_dev.cli("dev", "-no-demo", "-port", "0", "-data-dir", str(shared_dev.data_dir))
    assert again.code == 1
    assert "another server is running in it" in again.err
