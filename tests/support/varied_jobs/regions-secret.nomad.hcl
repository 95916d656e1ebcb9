job "x" {
  group "g" {
    secret "s" {
      provider = "nomad"
      path     = "a/b"
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
