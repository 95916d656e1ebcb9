job "x" {
  group "g" {
    dynamic "volume" {
      for_each = { a = { src = "s1" }, b = { src = "s2" } }
      iterator = v
      labels   = [v.key]
      content {
        type   = "host"
        source = v.value.src
      }
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
