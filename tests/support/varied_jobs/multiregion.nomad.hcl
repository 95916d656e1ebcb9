job "x" {
  multiregion {
    strategy {
      max_parallel = 1
      on_failure   = "fail_all"
    }
    region "west" {
      count       = 2
      datacenters = ["w1", "w2"]
      node_pool   = "p"
      meta {
        k = "v"
      }
    }
    region "east" {
    }
  }
  group "g" {
    count = 0
    task "t" {
      driver = "docker"
      config {
        image = "a"
      }
    }
  }
}
