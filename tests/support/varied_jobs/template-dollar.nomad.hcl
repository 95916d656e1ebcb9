job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      template {
        destination = "local/x"
        data        = <<-EOT
   #!/bin/sh
   echo $HOME $${HOME} $(date) %%{x} 100%
   awk '{print $1}'
     {{- range $i, $e := ls "a" }}
   ${NOMAD_TASK_DIR}
   EOT
      }
    }
  }
}
