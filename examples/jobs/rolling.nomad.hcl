# Three instances, replaced one at a time; a version that never gets healthy is taken back.

job "rolling" {
  type = "service"

  update {
    max_parallel      = 1
    health_check      = "task_states"
    min_healthy_time  = "1s"
    healthy_deadline  = "30s"
    progress_deadline = "1m"
    auto_revert       = true
  }

  group "workers" {
    count = 3

    restart {
      attempts = 1
      interval = "1m"
      delay    = "1s"
      mode     = "fail"
    }

    task "worker" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"worker $NOMAD_ALLOC_INDEX version $VERSION\"; exec sleep 1000000"]
      }

      env {
        VERSION = "1"
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
