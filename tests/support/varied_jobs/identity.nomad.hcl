job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      identity {
        env  = true
        file = true
      }
      identity {
        name          = "vault_default"
        aud           = ["vault.io"]
        ttl           = "1h"
        change_mode   = "signal"
        change_signal = "SIGHUP"
        file          = true
        filepath      = "local/vault.jwt"
      }
      identity {
        name        = "aws"
        aud         = ["sts.amazonaws.com"]
        ttl         = "1h"
        change_mode = "restart"
        env         = true
      }
    }
  }
}
