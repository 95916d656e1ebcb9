job "x" {
  group "g" {
    network {
      mode     = "bridge"
      hostname = "${NOMAD_ALLOC_ID}"
      dns {
        servers  = ["10.0.0.1", "${attr.unique.network.ip-address}"]
        searches = ["internal.corp"]
        options  = ["ndots:2"]
      }
      port "http" {
        static = 8080
        to     = 80
      }
      port "metrics" {
        to           = -1
        host_network = "private"
      }
      port "any" {}
      port "dup" {
        static           = 22
        ignore_collision = true
      }
      cni {
        args = {
          "nodeName" = "${node.unique.name}"
          x          = 1
        }
      }
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
