job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      resources {
        cpu     = 100
        memory  = 100
        secrets = 10
      }
    }
  }
}
