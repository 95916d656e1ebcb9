job "x" {
  type = "sysbatch"
  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }
  group "g" {
    restart {
      attempts = 0
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sleep"
        args    = ["1"]
      }
    }
  }
}
