variables {
  xs = [{ n = "a", p = 1 }, { n = "b", p = 2 }]
}
job "x" {
  group "g" {
    meta {
      names = join(",", var.xs[*].n)
      ps    = jsonencode(var.xs.*.p)
      first = var.xs.0.n
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
