"""`orchgit volume init`: an example of a volume."""

from __future__ import annotations

import json
from pathlib import Path

import click

from orchgit.cli.command import cli_command
from orchgit.cli.job_files.example_file import write_example
from orchgit.cli.options import option

_HOST = """\
# A directory on one node, made by a plugin. Try it: orchgit volume create {name}
name      = "example"
type      = "host"
plugin_id = "mkdir"

# Where it may be: any node of the pool that meets the constraints, or one by its id.
node_pool = "default"
# node_id = "..."

capacity_min = "1GiB"
capacity_max = "10GiB"

capability {{
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}}

constraint {{
  attribute = "${{attr.kernel.name}}"
  value     = "linux"
}}
"""
_CSI = """\
# A volume of a storage plugin (CSI). Try it: orchgit volume create {name}
id        = "example"
name      = "example"
type      = "csi"
plugin_id = "plugin"

capacity_min = "10GiB"
capacity_max = "20GiB"

capability {{
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}}

mount_options {{
  fs_type     = "ext4"
  mount_flags = ["noatime"]
}}

parameters {{
  skuname = "Premium_LRS"
}}
"""
_CAPABILITY = {"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}


@cli_command("init")
@click.argument("path", required=False)
@option("type", dest="kind", type=click.Choice(("host", "csi")), default="host", help="Of which.")
@option("json", dest="as_json", is_flag=True, help="Write JSON.")
def init(path: str | None, kind: str, as_json: bool) -> None:
    """Write an example of a volume."""
    target = Path(path or ("volume.json" if as_json else "volume.hcl"))
    text = (_HOST if kind == "host" else _CSI).format(name=target)
    if as_json:
        example = {
            "Name": "example",
            "Type": kind,
            "PluginID": "mkdir" if kind == "host" else "plugin",
            "RequestedCapacityMinBytes": 1 << 30,
            "RequestedCapacityMaxBytes": 10 << 30,
            "RequestedCapabilities": [_CAPABILITY],
        }
        text = json.dumps(example, indent=2) + "\n"
    write_example(target, text)
    click.echo(f"Example volume specification written to {target}")
