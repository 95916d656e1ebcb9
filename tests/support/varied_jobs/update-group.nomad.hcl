job "x" {
  group "g" {
    count = 3
    update {
      max_parallel      = 3
      canary            = 3
      progress_deadline = "0"
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
