job "x" {
  type = "batch"
  parameterized {
  }
  meta {
    a = "b"
  }
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "a"
      }
    }
  }
}
