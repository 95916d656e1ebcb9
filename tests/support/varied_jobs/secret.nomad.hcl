job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      secret "db" {
        provider = "vault"
        path     = "secret/data/db"
        config {
          engine = "kv_v2"
        }
      }
      secret "n" {
        provider = "nomad"
        path     = "nomad/jobs/x"
      }
      env {
        PW = "${secret.db.password}"
      }
    }
  }
}
