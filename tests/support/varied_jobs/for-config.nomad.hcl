job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      config {
        labels = [for k, v in { a = 1, b = 2 } : { "x.${k}" = "${v}" }]
      }
    }
  }
}
