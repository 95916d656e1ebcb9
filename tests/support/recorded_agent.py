"""A server and node in one process, configured as the agent that the bodies were recorded from."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.support.dev_server import OrchgitProcess, end_tasks
from tests.support.polling import until_blocking
from tests.support.ports import free_ports

_DENIED = "env_aws,env_gce,env_azure,env_digitalocean,consul,vault"


@contextlib.contextmanager
def recorded_agent(directory: Path) -> Iterator[httpx.Client]:
    """Yields a client with the management token of the agent's cluster."""
    file = directory / "agent.json"
    settings = _settings(directory)
    file.write_text(json.dumps(settings))
    process = OrchgitProcess("agent", "-config", str(file), ready="==>")
    address = f"http://127.0.0.1:{settings['ports']['http']}"
    with httpx.Client(base_url=address, timeout=30.0, trust_env=False) as http:
        try:
            process.start()
            until_blocking(lambda: _leads(http), 60.0, "the agent gets no leader")
            made = http.put("/v1/acl/bootstrap")
            assert made.status_code == 200, made.text
            http.headers["X-Nomad-Token"] = made.json()["SecretID"]
            yield http
        except BaseException:
            print(process.output)
            raise
        finally:
            if process.is_running:
                process.kill9()
            end_tasks(directory / "data")


def _leads(http: httpx.Client) -> bool:
    try:
        return http.get("/v1/status/leader").json() not in (None, "")
    except (httpx.HTTPError, ValueError):
        return False


def _settings(directory: Path) -> dict[str, Any]:
    volume = directory / "hv1"
    volume.mkdir()
    http, rpc, serf = free_ports(3)
    return {
        "name": "bod",
        "data_dir": str(directory / "data"),
        "bind_addr": "127.0.0.1",
        "log_level": "WARN",
        "disable_update_check": True,
        "ports": {"http": http, "rpc": rpc, "serf": serf},
        "acl": {"enabled": True, "token_min_expiration_ttl": "1s"},
        "server": {"enabled": True, "bootstrap_expect": 1, "event_buffer_size": 10000},
        "client": {
            "enabled": True,
            "network_interface": "lo",
            "cpu_total_compute": 8000,
            "memory_total_mb": 4096,
            "disk_total_mb": 20000,
            "disk_free_mb": 20000,
            "gc_interval": "1h",
            "min_dynamic_port": 20000,
            "max_dynamic_port": 20999,
            "meta": {"rack": "r1", "zone": "a"},
            "options": {"driver.allowlist": "raw_exec", "fingerprint.denylist": _DENIED},
            "host_volume": {"hv1": {"path": str(volume)}},
        },
        "plugin": {"raw_exec": {"config": {"enabled": True}}},
    }
