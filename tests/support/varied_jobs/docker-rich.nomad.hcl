variable "tag" {
  type    = string
  default = "7"
}
job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      config {
        image = "redis:${var.tag}"
        ports = ["db"]
        auth {
          username = "u"
          password = "p"
        }
        mount {
          type     = "bind"
          source   = "local/x"
          target   = "/x"
          readonly = true
          bind_options {
            propagation = "rslave"
          }
        }
        mounts = [
          { type = "tmpfs", target = "/t", tmpfs_options = { size = 100000 } },
        ]
        logging {
          type = "journald"
          config {
            tag = "x"
          }
        }
        labels = {
          "com.example.a" = "b"
        }
        ulimit {
          nproc  = "4242"
          nofile = "2048:4096"
        }
        sysctl = {
          "net.core.somaxconn" = "16384"
        }
        devices     = [{ host_path = "/dev/sda1", container_path = "/dev/xvdc", cgroup_permissions = "r" }]
        extra_hosts = ["a:127.0.0.1"]
        healthchecks { disable = true }
        cap_add = ["net_admin"]
        command = "sh"
        args    = ["-c", "echo ${NOMAD_TASK_NAME}; sleep ${NOMAD_META_s}"]
      }
    }
  }
}
