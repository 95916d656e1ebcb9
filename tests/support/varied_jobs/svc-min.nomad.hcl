job "x" {
  group "g" {
    network {
      mode = "bridge"
      port "http" {
        to = 80
      }
    }
    service {

    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
