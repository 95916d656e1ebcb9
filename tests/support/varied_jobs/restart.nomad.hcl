job "x" {
  group "g" {
    restart {
      interval         = "5m"
      attempts         = 3
      delay            = "25s"
      mode             = "delay"
      render_templates = true
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
