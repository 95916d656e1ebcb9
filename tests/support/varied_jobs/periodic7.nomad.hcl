job "x" {
  type = "batch"
  periodic {
    cron             = "0 0 12 ? * MON-FRI 2030-2035"
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
