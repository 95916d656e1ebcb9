# One instance on every node, present and future.

job "system" {
  type = "system"

  group "heartbeat" {
    task "heartbeat" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do echo \"alive on $NOMAD_DC\"; sleep 60; done"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
