job "x" {
  group "g" {
    network {
      mode = "bridge"
      port "in" {
        static = 8080
      }
    }
    service {
      name = "gw"
      port = "8080"
      connect {
        gateway {
          proxy {
            connect_timeout                     = "500ms"
            envoy_gateway_bind_tagged_addresses = true
            envoy_gateway_bind_addresses "s1" {
              address = "10.0.0.1"
              port    = 8443
            }
            envoy_gateway_no_default_bind = true
            envoy_dns_discovery_type      = "STRICT_DNS"
            config {
              a = 1
            }
          }
          ingress {
            tls {
              enabled         = true
              tls_min_version = "TLSv1_2"
              cipher_suites   = ["X"]
              sds {
                cluster_name  = "c"
                cert_resource = "r"
              }
            }
            listener {
              port     = 8080
              protocol = "http"
              service {
                name            = "api"
                hosts           = ["a.example.com"]
                max_connections = 10
                request_headers {
                  add {
                    X = "1"
                  }
                  set {
                    Y = "2"
                  }
                  remove = ["Z"]
                }
              }
            }
            listener {
              port = 9090
              service {
                name = "tcp"
              }
            }
          }
        }
      }
    }

  }
}
