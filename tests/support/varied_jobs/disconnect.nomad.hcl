job "x" {
  group "g" {
    disconnect {
      lost_after = "6h"
      replace    = false
      reconcile  = "keep_original"
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
