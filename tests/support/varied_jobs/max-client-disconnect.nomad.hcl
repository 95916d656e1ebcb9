job "x" {
  group "g" {
    max_client_disconnect      = "1h"
    prevent_reschedule_on_lost = true
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
