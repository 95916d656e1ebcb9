job "x" {
  group "g" {
    task "t" {
      driver = "podman"
      config {
        image   = "docker://docker.io/library/redis"
        ports   = ["a"]
        volumes = ["/a:/b:ro,noexec"]
        tmpfs   = ["/var"]
        socket  = "x"
      }
    }
  }
}
