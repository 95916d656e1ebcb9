job "x" {
  group "g" {
    network {
      mode = "bridge"
      port "w" {
      }
    }
    service {
      name = "mg"
      port = "w"
      connect {
        gateway {
          mesh {}
          proxy {}
        }
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
