variable "name" {
  default = "abc"
}
job "x" {
  name = "n-${var.name}"
  id   = "id-${var.name}"
  group "g" {
    task "t" {
      driver = "exec"
      config {
        command = "a"
      }
    }
  }
}
