# The exec driver: namespaces, a private root and a memory limit. Off by default, because it needs
# root and an OCI runtime (crun or runc): set `isolated` to true where there is one.

variable "isolated" {
  type    = bool
  default = false
}

job "isolated" {
  type = "batch"

  group "probe" {
    count = var.isolated ? 1 : 0

    task "probe" {
      driver = "exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"pid $$ as $(id -un)\""]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
