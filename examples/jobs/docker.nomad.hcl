# A container. Off by default, because not every machine has a docker engine:
# set `docker` to true once `orchgit node status -self` shows the driver as healthy.

variable "docker" {
  type    = bool
  default = false
}

variable "image" {
  type    = string
  default = "busybox:1"
}

job "docker" {
  type = "service"

  group "box" {
    count = var.docker ? 1 : 0

    update {
      health_check     = "task_states"
      min_healthy_time = "1s"
      healthy_deadline = "1m"
    }

    task "box" {
      driver = "docker"

      config {
        image        = var.image
        command      = "/bin/busybox"
        args         = ["sh", "-c", "echo \"inside a container\"; exec /bin/busybox sleep 1000000"]
        network_mode = "host"
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
