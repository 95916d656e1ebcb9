job "x" {
  group "g" {
    network {
      mode = "host"
      port "a" {
        static = "4646"
      }
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
