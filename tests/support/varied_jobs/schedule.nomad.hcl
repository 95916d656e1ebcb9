job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      schedule {
        cron {
          start    = "0 30 9 * * MON-FRI *"
          end      = "0 16 * * *"
          timezone = "America/New_York"
        }
      }
    }
  }
}
