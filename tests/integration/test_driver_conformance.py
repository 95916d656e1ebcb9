"""Our own drivers go through the tests that drivers of others go through."""

from __future__ import annotations

import pytest

from agent.drivers.conformance import DriverConformance
from tests.support import docker_engine, podman_engine
from tests.support.driver_rigs import MockRig, exec_works, shell_rig


class TestMockDriver(DriverConformance):
    rig = MockRig()


class TestRawExec(DriverConformance):
    rig = shell_rig("raw_exec")


@pytest.mark.skipif(not exec_works(), reason="needs root and crun or runc")
class TestExec(DriverConformance):
    rig = shell_rig("exec")


@docker_engine.needs_docker
@pytest.mark.docker
class TestDocker(DriverConformance):
    rig = shell_rig("docker")


@podman_engine.needs_podman
@pytest.mark.long
class TestPodman(DriverConformance):
    rig = shell_rig("podman")
