job "x" {
  group "g" {
    vault {
      policies = ["p"]
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
