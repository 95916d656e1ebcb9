job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      config {
        args = [
          "-c",
          <<-EOT
  a
    b
  EOT
          ,
          "z",
        ]
      }
    }
  }
}
