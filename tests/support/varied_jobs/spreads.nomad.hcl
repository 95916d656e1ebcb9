job "x" {
  group "g" {
    spread {
      attribute = "${node.datacenter}"
      weight    = 100
      target "dc1" {
        percent = 70
      }
      target "dc2" {
        percent = 30
      }
    }
    spread {
      attribute = "${meta.rack}"
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
