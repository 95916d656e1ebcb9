job "x" {
  group "g" {
    network {
      mode = "bridge"
      port "api" {
        to = 9001
      }
    }
    service {
      name = "n"
      port = "api"
      task = "t"
      connect {
        native = true
      }
    }
    task "t" {
      driver = "docker"
      config {
        image = "a"
      }
    }
  }
}
