job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      vault {
        policies               = ["nomad-cluster"]
        role                   = "r"
        change_mode            = "signal"
        change_signal          = "SIGUSR1"
        env                    = false
        disable_file           = true
        allow_token_expiration = true
      }
    }
  }
}
