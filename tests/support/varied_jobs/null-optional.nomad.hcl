job "x" {
  region   = null
  priority = null
  group "g" {
    count = null
    meta  = null

    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
