"""Records of servers: kept by address; a server with another cluster key is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchgit.errors import RefusedError, UnavailableError
from orchgit.model.server import ServerRecord
from orchgit.replication.commands.servers import DeleteServer, PutServer, SetClusterKeyCheck
from orchgit.state.store import Store
from tests.support.state import apply, open_store

ONE = ServerRecord(address="10.0.0.1:4648", name="one", rpc_address="10.0.0.1:4647")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path)


def servers(store: Store) -> list[ServerRecord]:
    with store.snapshot() as snapshot:
        return snapshot.servers.all()


def test_record_is_replaced_by_its_address_and_deleted(store: Store) -> None:
    apply(store, PutServer(server=ONE))
    apply(store, PutServer(server=ServerRecord(address=ONE.address, name="renamed")))
    [stored] = servers(store)
    assert (stored.name, stored.create_index, stored.modify_index) == ("renamed", 1, 2)
    apply(store, DeleteServer(address=ONE.address), DeleteServer(address=ONE.address))
    assert servers(store) == []


def test_server_with_another_cluster_key_than_the_first_is_refused(store: Store) -> None:
    assert apply(store, SetClusterKeyCheck(check="a")) == ["a"]
    assert apply(store, SetClusterKeyCheck(check="b")) == ["a"]
    apply(store, PutServer(server=ServerRecord(address="a:1", cluster_key_check="a")))
    with pytest.raises(RefusedError, match="copy the cluster key file"):
        apply(store, PutServer(server=ServerRecord(address="b:1", cluster_key_check="b")))
    assert [one.address for one in servers(store)] == ["a:1"]


def test_server_is_refused_before_the_first_leader_stored_the_key_check(store: Store) -> None:
    with pytest.raises(UnavailableError, match="still being formed"):
        apply(store, PutServer(server=ServerRecord(address="b:1", cluster_key_check="b")))
