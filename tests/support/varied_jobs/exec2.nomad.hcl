job "x" {
  group "g" {
    task "t" {
      driver = "exec2"
      config {
        command = "/bin/a"
        unveil  = ["r:/etc"]
      }
    }
  }
}
