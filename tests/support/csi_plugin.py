"""A CSI plugin for tests: volumes are directories, mounts are links. Run as a task of a job.

`python -m tests.support.csi_plugin DIRECTORY [NODE_ID [mounts]]` serves on `CSI_ENDPOINT`. Each
call is a line in `DIRECTORY/calls`. It uses grpcio with the tables of `agent/csi`. With `mounts`,
volumes are file systems in memory that are mounted.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

from agent.csi.messages import METHODS, ControllerRpc, NodeRpc
from agent.csi.protobuf import decode, encode

Request = dict[str, Any]


class Refused(Exception):
    def __init__(self, code: grpc.StatusCode, words: str) -> None:
        super().__init__(words)
        self.code = code


class Plugin:
    def __init__(self, root: Path, node_id: str) -> None:
        self.root = root
        self.node_id = node_id
        for name in ("volumes", "snapshots", "published"):
            (root / name).mkdir(parents=True, exist_ok=True)

    def note(self, name: str, request: Request) -> None:
        with (self.root / "calls").open("a") as file:
            file.write(json.dumps([name, request]) + "\n")

    # -- identity

    def GetPluginInfo(self, request: Request) -> Request:
        return {"name": "test.csi", "vendor_version": "1.0"}

    def GetPluginCapabilities(self, request: Request) -> Request:
        return {"capabilities": [{"service": {"type": 1}}, {"service": {"type": 2}}]}

    def Probe(self, request: Request) -> Request:
        return {"ready": {"value": True}}

    # -- controller

    def ControllerGetCapabilities(self, request: Request) -> Request:
        wanted = (1, 2, 3, 5, 6, 9)
        return {"capabilities": [{"rpc": {"type": ControllerRpc(one)}} for one in wanted]}

    def _volume(self, volume_id: str) -> Path:
        path = self.root / "volumes" / volume_id
        if not path.is_dir():
            raise Refused(grpc.StatusCode.NOT_FOUND, f"no volume {volume_id}")
        return path

    def CreateVolume(self, request: Request) -> Request:
        volume_id = f"ext-{request['name']}"
        if request["parameters"].get("fail"):
            raise Refused(grpc.StatusCode.OUT_OF_RANGE, request["parameters"]["fail"])
        path = self.root / "volumes" / volume_id
        path.mkdir(exist_ok=True)
        source = (request.get("volume_content_source") or {}).get("snapshot")
        if source:
            shutil.copytree(
                self.root / "snapshots" / source["snapshot_id"], path, dirs_exist_ok=True
            )
        size = request.get("capacity_range", {}).get("required_bytes", 0)
        volume = {"volume_id": volume_id, "capacity_bytes": size, "volume_context": {"made": "yes"}}
        return {"volume": volume}

    def DeleteVolume(self, request: Request) -> Request:
        shutil.rmtree(self.root / "volumes" / request["volume_id"], ignore_errors=True)
        return {}

    def ControllerPublishVolume(self, request: Request) -> Request:
        self._volume(request["volume_id"])
        (self.root / "published" / f"{request['volume_id']}@{request['node_id']}").touch()
        return {"publish_context": {"device": "d1"}}

    def ControllerUnpublishVolume(self, request: Request) -> Request:
        name = f"{request['volume_id']}@{request['node_id']}"
        (self.root / "published" / name).unlink(missing_ok=True)
        return {}

    def ValidateVolumeCapabilities(self, request: Request) -> Request:
        self._volume(request["volume_id"])
        return {"confirmed": {"volume_capabilities": request["volume_capabilities"]}}

    def ListVolumes(self, request: Request) -> Request:
        names = sorted(path.name for path in (self.root / "volumes").iterdir())
        return {"entries": [{"volume": {"volume_id": name}} for name in names]}

    def CreateSnapshot(self, request: Request) -> Request:
        snapshot_id = f"snap-{request['name']}"
        source = self._volume(request["source_volume_id"])
        shutil.copytree(source, self.root / "snapshots" / snapshot_id, dirs_exist_ok=True)
        return {"snapshot": self._snapshot(snapshot_id, request["source_volume_id"])}

    def _snapshot(self, snapshot_id: str, source: str) -> Request:
        return {
            "snapshot_id": snapshot_id,
            "source_volume_id": source,
            "size_bytes": 5,
            "ready_to_use": True,
            "creation_time": {"seconds": 1577836800},
        }

    def DeleteSnapshot(self, request: Request) -> Request:
        shutil.rmtree(self.root / "snapshots" / request["snapshot_id"], ignore_errors=True)
        return {}

    def ListSnapshots(self, request: Request) -> Request:
        names = sorted(path.name for path in (self.root / "snapshots").iterdir())
        return {"entries": [{"snapshot": self._snapshot(name, "")} for name in names]}

    def ControllerExpandVolume(self, request: Request) -> Request:
        self._volume(request["volume_id"])
        size = request["capacity_range"]["required_bytes"]
        return {"capacity_bytes": size, "node_expansion_required": True}

    # -- node

    def NodeGetCapabilities(self, request: Request) -> Request:
        wanted = (NodeRpc.STAGE_UNSTAGE_VOLUME, NodeRpc.EXPAND_VOLUME)
        return {"capabilities": [{"rpc": {"type": each}} for each in wanted]}

    def NodeGetInfo(self, request: Request) -> Request:
        topology = {"segments": {"test.csi/rack": "r1"}}
        return {
            "node_id": self.node_id,
            "max_volumes_per_node": 10,
            "accessible_topology": topology,
        }

    def NodeStageVolume(self, request: Request) -> Request:
        if request["publish_context"] != {"device": "d1"}:
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, "it was not published")
        (Path(request["staging_target_path"]) / "staged").touch()
        return {}

    def NodeUnstageVolume(self, request: Request) -> Request:
        (Path(request["staging_target_path"]) / "staged").unlink(missing_ok=True)
        return {}

    def NodePublishVolume(self, request: Request) -> Request:
        if not (Path(request["staging_target_path"]) / "staged").exists():
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, "it was not staged")
        target = Path(request["target_path"])
        target.unlink(missing_ok=True)
        target.symlink_to(self._volume(request["volume_id"]))
        return {}

    def NodeExpandVolume(self, request: Request) -> Request:
        """A volume of 66 bytes cannot be enlarged; the words are as careless as they can be."""
        size = request["capacity_range"]["required_bytes"]
        if size == 66:
            words = f"no room with {request['secrets']} at https://u:pw@store/"
            raise Refused(grpc.StatusCode.OUT_OF_RANGE, words)
        if not Path(request["volume_path"]).exists():
            raise Refused(grpc.StatusCode.NOT_FOUND, f"no mount {request['volume_path']}")
        return {"capacity_bytes": size}

    def NodeUnpublishVolume(self, request: Request) -> Request:
        Path(request["target_path"]).unlink(missing_ok=True)
        return {}


class MountingPlugin(Plugin):
    """Stages an empty file system, and publishes what is staged; both by mounts."""

    def NodeStageVolume(self, request: Request) -> Request:
        staging = request["staging_target_path"]
        if not os.path.ismount(staging):
            _mount("-t", "tmpfs", f"volume-{request['volume_id']}", staging)
        return {}

    def NodeUnstageVolume(self, request: Request) -> Request:
        _unmount(request["staging_target_path"])
        return {}

    def NodePublishVolume(self, request: Request) -> Request:
        target = request["target_path"]
        os.makedirs(target, exist_ok=True)
        if not os.path.ismount(target):
            _mount("--bind", request["staging_target_path"], target)
        return {}

    def NodeUnpublishVolume(self, request: Request) -> Request:
        _unmount(request["target_path"])
        return {}


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(grpc.StatusCode.INTERNAL, done.stderr)


def _unmount(path: str) -> None:
    if os.path.ismount(path):
        subprocess.run(["umount", path], check=True)


def serve(plugin: Plugin, endpoint: str, without: Sequence[str] = ()) -> grpc.Server:
    """Serves all methods of the plugin but those in `without`."""

    def handler(name: str) -> grpc.RpcMethodHandler:
        method = METHODS[name]
        work: Callable[[Request], Request] = getattr(plugin, name)

        def answer(data: bytes, context: grpc.ServicerContext) -> bytes:
            request = decode(method.request, data)
            if name != "Probe":
                plugin.note(name, request)
            try:
                return encode(method.reply, work(request))
            except Refused as refused:
                context.abort(refused.code, str(refused))
                raise

        return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.server(futures.ThreadPoolExecutor(4))
    for service in ("Identity", "Controller", "Node"):
        names = [
            name
            for name, method in METHODS.items()
            if method.service == service and hasattr(plugin, name) and name not in without
        ]
        handlers = {name: handler(name) for name in names}
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(f"csi.v1.{service}", handlers),)
        )
    server.add_insecure_port(endpoint.replace("unix://", "unix:"))
    server.start()
    return server


if __name__ == "__main__":
    node_id = sys.argv[2] if len(sys.argv) > 2 else "node-1"
    kind = MountingPlugin if "mounts" in sys.argv[3:] else Plugin
    serve(kind(Path(sys.argv[1]), node_id), os.environ["CSI_ENDPOINT"]).wait_for_termination()
