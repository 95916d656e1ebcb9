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
      port = "9001"
      connect {
        sidecar_service {
          tags                      = ["proxy"]
          port                      = "20000"
          disable_default_tcp_check = true
          meta {
            a = "b"
          }
          proxy {
            local_service_address = "127.0.0.1"
            local_service_port    = 9001
            upstreams {
              destination_name      = "count-api"
              local_bind_port       = 8080
              datacenter            = "dc2"
              local_bind_address    = "127.0.0.2"
              destination_namespace = "ns"
              destination_peer      = "p"
              destination_type      = "service"
              mesh_gateway {
                mode = "local"
              }
              config {
                connect_timeout_ms = 5000
              }
            }
            upstreams {
              destination_name       = "sock"
              local_bind_socket_path = "/tmp/s"
              local_bind_socket_mode = "0600"
            }
            expose {
              path {
                path            = "/metrics"
                protocol        = "http"
                local_path_port = 9102
                listener_port   = "http"
              }
            }
            config {
              envoy_stats = true
              nested {
                a = 1
              }
            }
          }
        }
        sidecar_task {
          name   = "sc"
          driver = "docker"
          user   = "nobody"
          config {
            image = "envoyproxy/envoy:v1"
            args  = ["-l", "debug"]
          }
          env {
            A = "b"
          }
          resources {
            cpu    = 250
            memory = 64
          }
          kill_timeout   = "10s"
          shutdown_delay = "5s"
          kill_signal    = "SIGINT"
          logs {
            max_files     = 2
            max_file_size = 2
          }
          meta {
            x = 1
          }
          volume_mount {
            volume      = "v"
            destination = "/v"
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
