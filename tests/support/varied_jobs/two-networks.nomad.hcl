job "x" {
  group "g" {
    network {
      mode = "host"
      port "a" {}
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
