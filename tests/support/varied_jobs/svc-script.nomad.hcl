job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      service {
        name = "s"
        port = "db"
        check {
          type     = "script"
          command  = "/bin/sh"
          args     = ["-c", "exit 0"]
          interval = "5s"
          timeout  = "1s"
        }
      }
      resources {
        network {
          port "db" {}
        }
      }
    }
  }
}
