job "x" {
  type = "batch"
  periodic {
    cron             = "*/15 * * * * *"
    prohibit_overlap = true
    time_zone        = "Europe/Berlin"
    enabled          = false
  }
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "date"
      }
    }
  }
}
