job "x" {
  type = "batch"
  group "g" {
    max_run_duration = "1h"
    task "t" {
      driver = "raw_exec"
      config {
        command = "a"
      }
    }
  }
}
