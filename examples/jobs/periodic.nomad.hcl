# Launched by the clock: every five minutes, never two at once.

job "periodic" {
  type = "batch"

  periodic {
    crons            = ["*/5 * * * *"]
    prohibit_overlap = true
    time_zone        = "UTC"
  }

  group "tick" {
    task "tick" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "date -u"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
