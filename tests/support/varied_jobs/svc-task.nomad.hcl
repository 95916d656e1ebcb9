job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      service {
        provider = "nomad"
        name     = "${TASK}-${JOB}-${BASE}"
        tags     = ["${node.class}"]
        check {
          name     = "c"
          type     = "tcp"
          port     = 1234
          interval = "10s"
          timeout  = "1s"
        }
      }
    }
  }
}
