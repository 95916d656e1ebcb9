"""Job files for tests: small, quick to get healthy, each with a name of its own."""

from __future__ import annotations


def sleeper(
    job_id: str,
    *,
    version: str = "1",
    count: int = 1,
    command: str = "exec sleep 1000000",
    auto_revert: bool = False,
    extra_group: str = "",
    is_bad: bool = False,
) -> str:
    """A service that prints its version and sleeps; healthy 100 ms after its start. The deployment
    of a bad one fails with its first allocation, the others have time on a busy machine too."""
    return f"""
job "{job_id}" {{
  group "main" {{
    count = {count}

    update {{
      health_check      = "task_states"
      max_parallel      = 1
      min_healthy_time  = "100ms"
      healthy_deadline  = "60s"
      progress_deadline = "{"0s" if is_bad else "90s"}"
      auto_revert       = {str(auto_revert).lower()}
    }}

    restart {{
      attempts = 0
      mode     = "fail"
    }}
    {extra_group}

    task "main" {{
      driver = "raw_exec"

      config {{
        command = "/bin/sh"
        args    = ["-c", "echo version $VERSION; {command}"]
      }}

      env {{
        VERSION = "{version}"
      }}

      resources {{
        cpu    = 20
        memory = 16
      }}
    }}
  }}
}}
"""


def web(job_id: str, message: str) -> str:
    """A web server that answers `message` on its allocated port, with an HTTP check."""
    return f"""
job "{job_id}" {{
  group "web" {{
    network {{
      port "http" {{}}
    }}

    update {{
      min_healthy_time  = "200ms"
      healthy_deadline  = "60s"
      progress_deadline = "90s"
    }}

    service {{
      name     = "{job_id}"
      port     = "http"
      provider = "nomad"

      check {{
        type     = "http"
        path     = "/"
        interval = "1s"
        timeout  = "1s"
      }}
    }}

    task "server" {{
      driver = "raw_exec"

      config {{
        command = "python3"
        args    = ["-m", "http.server", "${{NOMAD_PORT_http}}", "--directory", "local"]
      }}

      template {{
        destination = "local/index.html"
        data        = "{message}\\n"
      }}

      resources {{
        cpu    = 20
        memory = 32
      }}
    }}
  }}
}}
"""


def sticky(job_id: str, volume: str, version: str = "1") -> str:
    """A service that owns a sticky host volume and counts its starts in it."""
    return sleeper(
        job_id,
        version=version,
        extra_group=f"""
    volume "data" {{
      type            = "host"
      source          = "{volume}"
      sticky          = true
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }}
""",
    )


def batch(job_id: str, command: str = "true") -> str:
    """A batch job that runs the command once."""
    return f"""
job "{job_id}" {{
  type = "batch"
  group "main" {{
    restart {{
      attempts = 0
      mode     = "fail"
    }}
    reschedule {{
      attempts  = 0
      unlimited = false
    }}
    task "main" {{
      driver = "raw_exec"
      config {{
        command = "/bin/sh"
        args    = ["-c", "{command}"]
      }}
      resources {{
        cpu    = 20
        memory = 16
      }}
    }}
  }}
}}
"""


def depending(text: str, on: str) -> str:
    """The job file with a dependency in the job's meta."""
    job, brace, rest = text.partition("{\n")
    return f'{job}{brace}  meta = {{\n    "orchgit.depends_on" = "{on}"\n  }}\n{rest}'
