# A web service with a health check: edit `message`, commit, push, and reload the page.

variable "message" {
  type    = string
  default = "Hello from orchgit"
}

job "web" {
  type = "service"

  group "web" {
    count = 1

    # After the service is deregistered: time for those who still ask here.
    shutdown_delay = "1s"

    network {
      port "http" {}
    }

    update {
      max_parallel      = 1
      min_healthy_time  = "1s"
      healthy_deadline  = "30s"
      progress_deadline = "1m"
      auto_revert       = true
    }

    service {
      name     = "web"
      port     = "http"
      provider = "nomad"

      check {
        type     = "http"
        path     = "/"
        interval = "1s"
        timeout  = "1s"
      }
    }

    task "server" {
      driver = "raw_exec"

      config {
        command = "python3"
        args    = ["-m", "http.server", "${NOMAD_PORT_http}", "--directory", "local"]
      }

      template {
        destination = "local/index.html"
        data        = "<h1>${var.message}</h1>\n"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
