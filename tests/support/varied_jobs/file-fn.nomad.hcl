locals {
  a = fileexists("/etc/hostname") ? "yes" : "no"
  b = try(file("/no/such"), "none")
}
job "x" {
  group "g" {
    meta {
      a = local.a
      b = local.b
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
