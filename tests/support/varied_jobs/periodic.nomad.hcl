job "x" {
  type = "batch"
  periodic {
    crons            = ["*/5 * * * *", "@daily"]
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
