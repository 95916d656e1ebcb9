job "x" {
  group "g" {
    task "init" {
      lifecycle {
        hook    = "prestart"
        sidecar = false
      }
      driver = "exec"
      config {
        command = "sh"
      }
    }
    task "side" {
      lifecycle {
        hook    = "poststart"
        sidecar = true
      }
      driver = "exec"
      config {
        command = "sh"
      }
    }
    task "post" {
      lifecycle {
        hook = "poststop"
      }
      driver = "exec"
      config {
        command = "sh"
      }
    }
    task "main" {
      leader = true
      driver = "exec"
      config {
        command = "sh"
      }
    }
  }
}
