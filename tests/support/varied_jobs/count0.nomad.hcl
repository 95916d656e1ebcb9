job "x" {
  group "g" {
    count = 0
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
