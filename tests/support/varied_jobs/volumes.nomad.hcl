job "x" {
  group "g" {
    volume "data" {
      type      = "host"
      source    = "certs"
      read_only = true
    }
    volume "csi" {
      type            = "csi"
      source          = "vol"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
      per_alloc       = true
      mount_options {
        fs_type     = "ext4"
        mount_flags = ["noatime", "rw"]
      }
    }
    volume "dyn" {
      type            = "host"
      source          = "d"
      sticky          = true
      access_mode     = "single-node-single-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
