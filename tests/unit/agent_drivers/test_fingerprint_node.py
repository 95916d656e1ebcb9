"""What is read from the kernel's files, on this machine and on files made up."""

from __future__ import annotations

import socket
from pathlib import Path

from agent.fingerprint import cpu, memory, network, storage
from agent.fingerprint.host import attributes
from agent.fingerprint.network import Address, HostNetwork, Interface, Network
from agent.fingerprint.node import FingerprintConfig, fingerprint_node
from tests.support.cpu_time import least_cpu_s

_CPUINFO = "".join(
    f"processor\t: {number}\nmodel name\t: Some CPU\ncpu MHz\t\t: {speed}\n\n"
    for number, speed in enumerate((2500.4, 3100.0, 1800.0, 2500.0))
)


def test_this_machine_has_all_of_nomads_attributes(tmp_path: Path) -> None:
    found = fingerprint_node(FingerprintConfig(data_dir=tmp_path), "v1")
    expected = {
        *("cpu.arch", "cpu.numcores", "cpu.totalcompute", "memory.totalbytes", "os.signals"),
        *("kernel.name", "kernel.version", "kernel.arch", "os.name", "os.version"),
        *("unique.hostname", "unique.network.ip-address", "unique.storage.volume"),
        *("unique.storage.bytestotal", "unique.storage.bytesfree", "nomad.version"),
    }
    assert expected <= set(found.attributes)
    assert found.attributes["unique.hostname"] == socket.gethostname()
    assert found.attributes["kernel.name"] == "linux"
    assert found.resources.cpu.cpu_shares > 0
    assert found.resources.memory.memory_mb > 0
    assert found.resources.disk.disk_mb > 0
    assert found.resources.networks


def test_fingerprint_costs_little_processor_time(tmp_path: Path) -> None:
    def work() -> None:
        fingerprint_node(FingerprintConfig(data_dir=tmp_path), "v2")

    assert least_cpu_s(work, enough_s=0.15) < 0.15


def test_configured_values_win_over_measured_ones(tmp_path: Path) -> None:
    config = FingerprintConfig(
        data_dir=tmp_path / "not" / "made" / "yet",
        network_interface="lo",
        cpu_total_compute_mhz=12345,
        memory_total_mb=777,
        disk_total_mb=5000,
        disk_free_mb=4000,
        network_speed_mbits=42,
    )
    found = fingerprint_node(config, "none")
    resources = found.resources
    assert (resources.cpu.cpu_shares, resources.memory.memory_mb) == (12345, 777)
    assert resources.disk.disk_mb == 4000
    assert found.attributes["unique.storage.bytestotal"] == str(5000 << 20)
    assert resources.networks is not None
    assert (resources.networks[0].device, resources.networks[0].ip) == ("lo", "127.0.0.1")
    assert resources.networks[0].mbits == 42
    assert resources.node_networks is not None
    assert resources.node_networks[0].addresses[0].alias == "default"


def test_host_networks_give_the_addresses_of_their_interface_and_block_a_name() -> None:
    lan = Interface(
        "eth0",
        "02:00:00:00:00:01",
        1000,
        [Address("ipv4", "10.0.0.5", 24), Address("ipv6", "fd00::5", 64)],
    )
    public = Interface("eth1", "02:00:00:00:00:02", 1000, [Address("ipv4", "192.0.2.7", 24)])
    named = (
        HostNetwork("public", interface="eth1", reserved_ports="22"),
        HostNetwork("lan6", cidr="fd00::/16"),
        HostNetwork("nowhere", cidr="172.16.0.0/12"),
        HostNetwork("contradiction", cidr="192.0.2.0/24", interface="eth0"),
    )
    found = Network(lan, [lan, public]).node_networks(named)
    assert [
        (network.device, address.alias, address.address, address.reserved_ports)
        for network in found
        for address in network.addresses
    ] == [
        ("eth0", "default", "10.0.0.5", ""),
        ("eth0", "default", "fd00::5", ""),
        ("eth0", "lan6", "fd00::5", ""),
        ("eth1", "public", "192.0.2.7", "22"),
    ]


def test_compute_is_cores_times_the_nominal_frequency(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(_CPUINFO)
    found = cpu.read(cpuinfo=tmp_path / "cpuinfo", system=tmp_path)
    assert (found.cores, found.frequency_mhz, found.total_compute_mhz) == (4, 3100, 12400)
    (tmp_path / "cpuinfo_max_freq").write_text("2000000\n")
    found = cpu.read(cpuinfo=tmp_path / "cpuinfo", system=tmp_path)
    assert (found.frequency_mhz, found.model) == (2000, "Some CPU")
    assert cpu.read(cpuinfo=tmp_path / "none", system=tmp_path / "none").total_compute_mhz > 0


def test_memory_is_in_bytes(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:        2048 kB\nMemFree: 1 kB\n")
    assert memory.read(meminfo=tmp_path / "meminfo").total_bytes == 2 << 20


def test_disk_is_the_one_of_the_data_directory() -> None:
    assert storage.read(Path("/proc/self")).total_bytes == 0
    assert storage.read(Path("/dev/shm/none/yet")).volume in ("tmpfs", "shm")


def test_default_route_with_the_lowest_metric_names_the_interface(tmp_path: Path) -> None:
    rows = [
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask",
        "wlan0\t00000000\t010200C0\t0003\t0\t0\t600\t00000000",
        "eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000",
        "eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF",
    ]
    (tmp_path / "route").write_text("\n".join(rows))
    assert network.default_route(tmp_path / "route") == "eth0"
    assert network.default_route(tmp_path / "none") == ""


def test_unknown_interface_falls_back_to_loopback() -> None:
    found = network.read("no-such-interface")
    assert found.default is not None
    assert found.default.name == "lo"


def test_machine_without_addresses_offers_no_network() -> None:
    nothing = Network(None, [])
    assert (nothing.attributes(), nothing.resources(), nothing.node_networks()) == ({}, [], [])
    six = Interface("eth0", "02:00", 100, [Address("ipv6", "fd00::2", 64)])
    assert Network(six, [six]).resources()[0].cidr == "fd00::2/128"


def test_version_of_nomad_is_the_one_whose_model_this_is() -> None:
    assert attributes()["nomad.version"].startswith("2.")
