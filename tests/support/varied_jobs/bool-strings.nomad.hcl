job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      config {
        a = true
        b = "true"
        c = 1
        d = 1.5
        e = null
        f = []
        g = {}
        h = [{}]
      }
      leader       = "true"
      kill_timeout = "1m30s"
    }
  }
}
