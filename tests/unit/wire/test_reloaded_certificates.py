"""gRPC is given another configuration only when the certificate files have changed: one that it
replaces may still be in use by a handshake on another thread, and is freed all the same."""

from __future__ import annotations

from pathlib import Path

from orchgit.wire.https import reload_files
from orchgit.wire.tls import NewConfigurations
from tests.support.certificates import make_tls_files


def test_handshakes_get_no_configuration_while_the_files_stay_unchanged(tmp_path: Path) -> None:
    files = make_tls_files(tmp_path)
    fetch = NewConfigurations(files)
    assert fetch.first is not None
    assert [fetch() for _ in range(5)] == [None] * 5


def test_reloaded_configuration_is_given_to_one_handshake(tmp_path: Path) -> None:
    files = make_tls_files(tmp_path)
    fetch = NewConfigurations(files)
    reload_files(files)
    given = fetch()
    assert given is not None
    assert given is not fetch.first
    assert fetch() is None


def test_unreadable_files_change_no_configuration(tmp_path: Path) -> None:
    files = make_tls_files(tmp_path)
    fetch = NewConfigurations(files)
    files.cert.unlink()
    files.version.number += 1
    assert fetch() is None
