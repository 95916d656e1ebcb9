job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      resources {
        memory     = 256
        memory_max = 512
        device "nvidia/gpu/Tesla T4" {
          count = 2
          constraint {
            attribute = "${device.attr.memory}"
            operator  = ">="
            value     = "4 GiB"
          }
          affinity {
            attribute = "${device.model}"
            value     = "x"
            weight    = 75
          }
        }
        device "fpga" {}
        numa {
          affinity = "require"
          devices  = ["nvidia/gpu/Tesla T4"]
        }
        cores = 2
      }
    }
  }
}
