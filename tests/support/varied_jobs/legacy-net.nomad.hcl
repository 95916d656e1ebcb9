job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      resources {
        cpu    = 500
        memory = 256
        network {
          mbits = 10
          port "db" {}
          port "x" {
            static = 80
          }
        }
        iops = 1
        disk = 5
      }
      env = {
        "A.B" = 1
        C     = "${NOMAD_ADDR_db}"
      }
    }
  }
}
