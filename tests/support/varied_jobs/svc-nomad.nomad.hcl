job "x" {
  group "g" {
    network {
      mode = "bridge"
      port "http" {
        to = 80
      }
    }
    service {
      name        = "web"
      port        = "http"
      provider    = "nomad"
      tags        = ["a", "urlprefix-/"]
      canary_tags = ["c"]
      weights {
        passing = 2
        warning = 1
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
