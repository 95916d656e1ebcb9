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
      port = "http"
      task = "t"
      check {
        name     = "s"
        type     = "script"
        task     = "t"
        command  = "true"
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
