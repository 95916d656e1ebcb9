job "x" {
  group "g" {
    network {
      port "a" {
        static = 1
      }
      port "b" {}
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
