job "x" {
  group "g" {
    count = "3"
    restart {
      attempts = 2.0
      delay    = 15000000000
      interval = "30m0s"
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
