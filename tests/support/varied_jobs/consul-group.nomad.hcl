job "x" {
  group "g" {
    consul {
      namespace = "default"
      cluster   = "default"
      partition = "default"
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
