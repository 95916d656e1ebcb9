job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      template {
        data        = <<EOH
---
{{ range service "db" }}
server {{ .Address }}:{{ .Port }}
{{ end }}
{{ with secret "secret/data/x" }}{{ .Data.data.v }}{{ end }}
KEY="{{ key "service/web" }}"
EOH
        destination = "secrets/file.env"
        env         = true
        change_mode = "noop"
      }
      template {
        source               = "local/a.tpl"
        destination          = "local/a"
        change_mode          = "signal"
        change_signal        = "sighup"
        splay                = "10s"
        perms                = "600"
        uid                  = 1000
        gid                  = 1000
        left_delimiter       = "[["
        right_delimiter      = "]]"
        error_on_missing_key = true
        once                 = true
        wait {
          min = "5s"
          max = "90s"
        }
      }
      template {
        data        = "x"
        destination = "local/b"
        change_mode = "script"
        change_script {
          command             = "/bin/foo"
          args                = ["-a", "b"]
          timeout             = "90s"
          fail_on_error       = true
          run_on_first_render = true
        }
      }
    }
  }
}
