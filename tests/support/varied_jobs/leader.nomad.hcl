job "x" {
  group "g" {
    task "a" {
      leader = true
      driver = "exec"
      config {
        command = "a"
      }
    }
    task "b" {
      driver = "exec"
      config {
        command = "b"
      }
    }
  }
}
