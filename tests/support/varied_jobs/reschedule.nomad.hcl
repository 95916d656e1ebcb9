job "x" {
  group "g" {
    reschedule {
      attempts       = 5
      interval       = "1h"
      delay          = "30s"
      delay_function = "fibonacci"
      max_delay      = "10m"
      unlimited      = false
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
