job "x" {
  group "g" {
    constraint {
      operator = "distinct_hosts"
      value    = "true"
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
