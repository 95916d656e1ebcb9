job "x" {
  update {
    stagger           = "1m"
    max_parallel      = 2
    health_check      = "task_states"
    min_healthy_time  = "11s"
    healthy_deadline  = "3m"
    progress_deadline = "10m"
    auto_revert       = true
    auto_promote      = true
    canary            = 1
  }
  group "g" {

    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
