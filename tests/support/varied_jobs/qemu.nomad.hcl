job "x" {
  group "g" {
    task "t" {
      driver = "qemu"
      config {
        image_path  = "local/x.img"
        accelerator = "kvm"
        args        = ["-nodefaults"]
        port_map {
          ssh = 22
        }
      }
    }
  }
}
