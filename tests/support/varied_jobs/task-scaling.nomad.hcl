job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      resources {
        cpu    = 100
        memory = 100
      }
      scaling "cpu" {
        enabled = true
        min     = 50
        max     = 500
        policy {
          cooldown = "5m"
        }
      }
      scaling "mem" {
        min = 10
        max = 1000
        policy {}
      }
    }
  }
}
