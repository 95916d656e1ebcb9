job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      resources {
        cores  = 4
        memory = 128
        numa {
          affinity = "prefer"
        }
      }
    }
  }
}
