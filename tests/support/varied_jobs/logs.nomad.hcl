job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      logs {
        max_files     = 3
        max_file_size = 5
        disabled      = false
      }
    }
  }
}
