job "x" {
  group "g" {
    network {
      mode = "bridge"
    }
    service {
      name = "gw"
      connect {
        gateway {
          terminating {
            service {
              name      = "api"
              ca_file   = "/ca"
              cert_file = "/c"
              key_file  = "/k"
              sni       = "s"
            }
          }
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
