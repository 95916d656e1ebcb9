/* a
 b */ // c
# d
job "x" {
  group "g" {
    count /* x */ = /* y */ 2 // z
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
