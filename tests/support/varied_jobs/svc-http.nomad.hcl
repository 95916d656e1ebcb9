job "x" {
  group "g" {
    network {
      mode = "bridge"
      port "http" {
        to = 80
      }
    }
    service {
      name = "web-${NOMAD_GROUP_NAME}"
      port = "http"
      tags = ["global", "cache"]
      meta {
        version = "1"
      }
      canary_meta {
        c = "d"
      }
      tagged_addresses {
        public_wan = "1.2.3.4"
      }
      enable_tag_override = true
      address_mode        = "alloc"
      on_update           = "ignore_warnings"
      check {
        name            = "alive"
        type            = "http"
        protocol        = "https"
        path            = "/health"
        method          = "POST"
        body            = "{\"a\": 1}"
        interval        = "10s"
        timeout         = "2s"
        tls_skip_verify = true
        tls_server_name = "x"
        initial_status  = "passing"
        notes           = "n"
        header {
          Authorization = ["Basic abc"]
          X             = ["1", "2"]
        }
        check_restart {
          limit           = 3
          grace           = "90s"
          ignore_warnings = false
        }
      }
      check {
        type                     = "tcp"
        interval                 = "10s"
        timeout                  = "2s"
        port                     = "http"
        address_mode             = "driver"
        success_before_passing   = 3
        failures_before_critical = 5
        failures_before_warning  = 1
      }
      check {
        type         = "grpc"
        port         = "http"
        interval     = "5s"
        timeout      = "2s"
        grpc_service = "example.Service"
        grpc_use_tls = true
      }
      check_restart {
        limit = 2
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
