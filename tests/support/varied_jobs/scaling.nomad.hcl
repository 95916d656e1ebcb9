job "x" {
  group "g" {
    count = 2
    scaling {
      enabled = true
      min     = 1
      max     = 10
      policy {
        evaluation_interval = "10s"
        cooldown            = "1m"
        check "avg" {
          source = "prometheus"
          query  = "avg(rate(x[1m]))"
          strategy "target-value" {
            target = 80
          }
        }
        check "two" {
          source = "nomad-apm"
          query  = "avg_cpu"
          group  = "g"
          strategy "threshold" {
            upper_bound           = 100
            lower_bound           = 1.5
            delta                 = "-1"
            within_bounds_trigger = 1
          }
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
