# комментарий ✓
job "x" {
  group "g" {
    meta {
      ключ = "значение"
      a-b  = "日本"
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
