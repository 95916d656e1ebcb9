job "x" {
  group "g" {
    disconnect {
      stop_on_client_after = "1m"
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
