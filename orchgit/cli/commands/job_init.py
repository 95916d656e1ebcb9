"""`orchgit job init`: an example job file, or one from a template of the cluster's."""

from __future__ import annotations

from pathlib import Path

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.options import connected, no_effect_option, option

_TEMPLATES = "nomad/job-templates"
"""Where variables hold templates of job files."""

EXAMPLE = """\
# A job: what should run, and how it is kept running.
# Try it:  orchgit job plan {name}   then   orchgit job run {name}
job "example" {{
  type = "service"

  group "web" {{
    # How many instances of the group should run.
    count = 1

    # After the service is deregistered: time for those who still ask here.
    shutdown_delay = "1s"

    network {{
      # A free port of the node; the task finds it in NOMAD_PORT_http.
      port "http" {{}}
    }}

    # A new version replaces one instance at a time, and is taken back if it stays unhealthy.
    update {{
      max_parallel     = 1
      min_healthy_time = "5s"
      healthy_deadline = "1m"
      auto_revert      = true
    }}

    service {{
      name     = "example"
      port     = "http"
      provider = "nomad"

      check {{
        type     = "http"
        path     = "/"
        interval = "5s"
        timeout  = "2s"
      }}
    }}

    task "server" {{
      driver = "raw_exec"

      config {{
        command = "python3"
        args    = ["-m", "http.server", "${{NOMAD_PORT_http}}", "--directory", "local"]
      }}

      # Written into the task's directory before it starts.
      template {{
        destination = "local/index.html"
        data        = "<h1>It works</h1>"
      }}

      resources {{
        cpu    = 100 # MHz
        memory = 64  # MiB
      }}
    }}
  }}
}}
"""


@cli_command("init")
@click.argument("path", default="example.nomad.hcl")
@option("short", is_flag=True, help="Without comments.")
@option("template", help=f"Name of a template: a variable below {_TEMPLATES}.")
@option("list-templates", is_flag=True, help="List the templates, and write nothing.")
@no_effect_option("connect", "there is no Consul", is_flag=True)
@connected
def init(
    client: ApiClient, path: str, short: bool, template: str | None, list_templates: bool
) -> None:
    """Write an example job file."""
    if list_templates:
        found = client.get("/v1/vars", prefix=f"{_TEMPLATES}/")
        for each in found:
            click.echo(each["Path"].removeprefix(f"{_TEMPLATES}/"))
        if not found:
            click.echo("No job templates")
        return
    target = Path(path)
    if target.exists():
        raise ApiError(f"cannot write {path}: it exists already; name another file")
    if template:
        items = client.get(f"/v1/var/{_TEMPLATES}/{template}")["Items"]
        if "template" not in items:
            raise ApiError(
                f"cannot use {_TEMPLATES}/{template}: the variable has no item 'template'"
            )
        text = str(items["template"])
    else:
        text = EXAMPLE.format(name=path)
    if short:
        kept = (line for line in text.splitlines() if not line.strip().startswith("#"))
        text = "\n".join(kept) + "\n"
    target.write_text(text)
    click.echo(f"Example job file written to {path}")
