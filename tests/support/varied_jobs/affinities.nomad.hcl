job "x" {
  group "g" {
    affinity {
      attribute = "${node.datacenter}"
      value     = "dc1"
      weight    = -100
    }
    affinity {
      attribute        = "${meta.x}"
      set_contains_any = "a,b"
    }
    affinity {
      attribute = "${attr.nomad.version}"
      version   = ">1"
      weight    = 10
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
