job "x" {
  type = "system"
  update {
    max_parallel     = 1
    min_healthy_time = "5s"
  }
  group "g" {
    task "t" {
      driver = "docker"
      config {
        image        = "busybox"
        network_mode = "host"
        privileged   = true
        volumes      = ["/:/host:ro"]
      }
    }
  }
}
