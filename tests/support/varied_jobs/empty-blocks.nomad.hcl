job "x" {
  group "g" {
    network {}
    service {}
    restart {}
    ephemeral_disk {}
    update {}
    migrate {}
    reschedule {}
    meta {}
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
