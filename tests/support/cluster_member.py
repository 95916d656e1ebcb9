"""One server of a cluster with fixed members: `python -m tests.support.cluster_member FILE`.

FILE is JSON: fields of ServerConfig.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from orchgit.cli.running import Running, configure_logging, run_until_stopped
from orchgit.server.config import ServerConfig
from orchgit.wire.tls import TlsFiles


def read(file: Path) -> ServerConfig:
    settings: dict[str, Any] = json.loads(file.read_text())
    settings["data_dir"] = Path(settings["data_dir"])
    settings["cluster_key_file"] = Path(settings["cluster_key_file"])
    settings["peers"] = tuple(settings["peers"])
    if tls := settings.pop("tls", None):
        settings["tls"] = TlsFiles(*(Path(one) for one in tls))
    return ServerConfig(**settings)


async def _started(running: Running) -> None:
    print("started", flush=True)


if __name__ == "__main__":
    configure_logging("INFO")
    config = read(Path(sys.argv[1]))
    asyncio.run(run_until_stopped(config, None, "", _started))
