job "x" {
  group "g" {
    network {
      mode = "bridge"
      port "http" {
        to = 80
      }
    }
    service {
      name = "web"
      port = "http"
      connect {
        sidecar_service {
          proxy {
            transparent_proxy {
              uid                    = "101"
              outbound_port          = 15001
              exclude_inbound_ports  = ["http", "9000"]
              exclude_outbound_ports = [443, 80]
              exclude_outbound_cidrs = ["10.0.0.0/8"]
              exclude_uids           = ["0"]
              no_dns                 = true
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
