job "x" {
  region      = "global"
  namespace   = "default"
  type        = "service"
  priority    = 70
  all_at_once = true
  datacenters = ["dc1", "dc*"]
  node_pool   = "default"
  id          = "other-id"
  name        = "nice name"

  meta {
    a = 1
    b = true
    c = "x"
  }

  group "g" {
    task "t" {
      driver = "exec"

      config {
        command = "/bin/true"
      }
    }
  }
}
