# Runs once to its end: a batch job is done when its tasks have exited with 0.

job "batch" {
  type = "batch"

  group "report" {
    reschedule {
      attempts  = 2
      interval  = "1h"
      delay     = "5s"
      unlimited = false
    }

    task "report" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"report of commit $ORCHGIT_COMMIT\" | tee \"$NOMAD_ALLOC_DIR/data/report.txt\""]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
