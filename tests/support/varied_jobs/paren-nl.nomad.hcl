job "x" {
  group "g" {
    count = (
      1 +
      2
    )
    meta {
      a = upper(
        "x",
      )
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
