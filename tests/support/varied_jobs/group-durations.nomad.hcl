job "x" {
  group "g" {
    shutdown_delay               = "10s"
    stop_after_client_disconnect = "1m"
    meta {
      a = "b"
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
