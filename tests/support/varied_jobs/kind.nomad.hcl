job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      kind   = "connect-proxy:x"
    }
  }
}
