job "x" {
  group "g" {
    task "t" {
      driver         = "docker"
      user           = "nobody"
      kill_timeout   = "20s"
      kill_signal    = "SIGQUIT"
      shutdown_delay = "3s"
      meta {
        a = "1"
      }
      restart {
        attempts = 5
        interval = "10m"
        delay    = "1s"
        mode     = "fail"
      }
      constraint {
        attribute = "${attr.driver.docker}"
        value     = "1"
      }
      affinity {
        attribute = "${meta.a}"
        value     = "b"
      }
    }
  }
}
