job "x" {
  group "g" {
    network {
      mode = "bridge"
      port "http" {
        to = 80
      }
    }
    service {
      name = "a"
      port = "8080"
      connect {
        sidecar_service {}
      }
      check {
        expose   = true
        type     = "http"
        path     = "/h"
        interval = "10s"
        timeout  = "2s"
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
