"""What the node's owner sets for the docker driver: `plugin "docker" { config { ... } }`."""

from __future__ import annotations

import msgspec

from agent.drivers.capabilities import DEFAULT_CAPABILITIES
from agent.drivers.docker.config import LoggingConfig


class DockerAuthOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Credentials of registries for jobs without any."""

    config: str = ""
    """A file as `docker login` writes it."""
    helper: str = ""
    """NAME of a program `docker-credential-NAME`."""


class DockerTlsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Files in PEM for an engine at an `https://` or `tcp://` endpoint."""

    cert: str = ""
    key: str = ""
    ca: str = ""


class DanglingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Containers of this agent that it does not know: left by an engine that died in between."""

    enabled: bool = True
    dry_run: bool = False
    """Only say so in the log."""
    period: str = "5m"
    creation_grace: str = "5m"


class DockerGcOptions(msgspec.Struct, frozen=True, kw_only=True):
    image: bool = True
    image_delay: str = "3m"
    """How long an image stays after its last task."""
    container: bool = True
    """Whether ended containers are removed."""
    dangling_containers: DanglingOptions = DanglingOptions()


class DockerVolumeOptions(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = False
    """Whether a job may mount any path of the host; its own directory it always may."""
    selinuxlabel: str = ""


class DockerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's `docker` plugin options, with Nomad's names and defaults."""

    enabled: bool = True
    endpoint: str = ""
    """"" means DOCKER_HOST, or the usual socket."""
    tls: DockerTlsOptions = DockerTlsOptions()
    allow_privileged: bool = False
    allow_caps: tuple[str, ...] = DEFAULT_CAPABILITIES
    allow_runtimes: tuple[str, ...] = ("runc", "nvidia")
    nvidia_runtime: str = ""
    """The runtime of tasks with GPUs; "": the engine is asked for the GPUs by a device request."""
    volumes: DockerVolumeOptions = DockerVolumeOptions()
    auth: DockerAuthOptions = DockerAuthOptions()
    gc: DockerGcOptions = DockerGcOptions()
    pull_activity_timeout: str = "2m"
    """A pull without any progress for so long is given up."""
    pids_limit: int = 0
    """The most that a job may have; 0: no limit."""
    container_exists_attempts: int = 5
    extra_labels: list[str] = []
    """Names or patterns of labels: job_name, job_id, task_group_name, task_name, namespace,
    node_name, node_id, or `*`."""
    logging: LoggingConfig = LoggingConfig()
    disable_log_collection: bool = False
    infra_image: str = ""
    infra_image_pull_timeout: str = "5m"
