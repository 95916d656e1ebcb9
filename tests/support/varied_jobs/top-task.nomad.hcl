job "x" {
  task "a" {
    driver = "docker"
    config {
      image = "x"
    }
  }
  task "b" {
    driver = "exec"
    config {
      command = "y"
    }
  }
}
