job "x" {
  group "g" {
    network {
      mode = "cni/mynet"
      port "a" {
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
