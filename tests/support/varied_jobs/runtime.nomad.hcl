job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      env {
        A = "${NOMAD_IP_http}:${NOMAD_PORT_http}"
        B = "${attr.unique.network.ip-address}"
        C = "${node.unique.id}"
        D = "${meta.a.b}"
        E = NOMAD_ALLOC_DIR
        F = "$NOMAD_X $${Y} ${env["PATH"]}"
      }
    }
  }
}
