job "x" {
  group "g" {
    network {
      mode = "bridge"
      port "http" {
        to = 80
      }
    }
    service {
      name    = "a"
      port    = "http"
      address = "10.0.0.5"

    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
