job "x" {
  group "g" {
    constraint {
      distinct_hosts = true
    }
    constraint {
      attribute = "${meta.rack}"
      operator  = "distinct_property"
      value     = "2"
    }
    constraint {
      distinct_property = "${meta.zone}"
    }
    constraint {
      attribute = "${attr.os.version}"
      version   = ">= 18.04, < 24"
    }
    constraint {
      attribute = "${attr.nomad.version}"
      semver    = ">= 1.4.0-beta1"
    }
    constraint {
      attribute = "${attr.cpu.arch}"
      regexp    = "^(amd|arm)64$"
    }
    constraint {
      attribute    = "${attr.cpu.features}"
      set_contains = "avx,sse"
    }
    constraint {
      attribute = "${meta.tags}"
      operator  = "set_contains_any"
      value     = "a,b"
    }
    constraint {
      attribute = "${meta.cached}"
      operator  = "is_set"
    }
    constraint {
      attribute = "${meta.old}"
      operator  = "is_not_set"
    }
    constraint {
      attribute = "${node.unique.name}"
      operator  = "!="
      value     = "n1"
    }
    constraint {
      attribute = "${attr.memory.totalbytes}"
      operator  = ">="
      value     = 1000
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
