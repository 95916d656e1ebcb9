job "x" {
  group "g" {
    scaling {
      max = 3
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
