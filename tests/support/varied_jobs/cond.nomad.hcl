variable "prod" {
  type    = bool
  default = false
}
job "x" {
  group "g" {
    count = var.prod ? 3 : 1
    dynamic "update" {
      for_each = var.prod ? [1] : []
      content {
        canary = 1
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
