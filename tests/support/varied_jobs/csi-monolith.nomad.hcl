job "x" {
  type = "system"
  group "nodes" {
    task "plugin" {
      driver = "docker"
      config {
        image      = "quay.io/csi:v1"
        args       = ["node", "--endpoint=unix://csi/csi.sock"]
        privileged = true
      }
      csi_plugin {
        id                     = "ebs"
        type                   = "monolith"
        mount_dir              = "/csi"
        stage_publish_base_dir = "/x"
        health_timeout         = "1m"
      }
    }
  }
}
