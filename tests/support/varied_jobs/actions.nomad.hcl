job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      action "ls" {
        command = "/bin/ls"
        args    = ["-l", "${NOMAD_TASK_DIR}"]
      }
      action "flush-db" {
        command = "redis-cli"
      }
    }
  }
}
