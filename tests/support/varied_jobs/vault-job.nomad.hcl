job "x" {
  vault {
    role = "r"
  }
  group "g" {

    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
