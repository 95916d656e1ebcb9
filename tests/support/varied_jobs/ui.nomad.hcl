job "x" {
  ui {
    description = <<EOT
# Title
*md*
EOT
    link {
      label = "Docs"
      url   = "https://example.com"
    }
    link {
      label = "b"
      url   = "https://b"
    }
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
