job "x" {
  group "g" {
    volume "data" {
      type   = "host"
      source = "d"
    }
    task "t" {
      driver = "docker"
      config {
        image = "a"
      }
      volume_mount {
        volume           = "data"
        destination      = "/data"
        read_only        = false
        propagation_mode = "bidirectional"
        selinux_label    = "Z"
      }
    }
  }
}
