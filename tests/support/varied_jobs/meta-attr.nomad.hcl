job "x" {
  meta = { "a.b" = 1, c = upper("x"), (join("-", ["d", "e"])) = true }
  group "g" {

    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
