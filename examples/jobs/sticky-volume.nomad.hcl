# A counter that keeps its data: the group claims one host volume, and every later version of it is
# placed where that volume is. `orchgit dev` makes the volume `demo-data`.

job "sticky" {
  type = "service"

  group "counter" {
    count = 1

    volume "data" {
      type            = "host"
      source          = "demo-data"
      sticky          = true
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    update {
      health_check     = "task_states"
      min_healthy_time = "1s"
      healthy_deadline = "30s"
    }

    task "counter" {
      driver = "raw_exec"

      volume_mount {
        volume      = "data"
        destination = "data"
      }

      config {
        command = "/bin/sh"
        args = ["-c", <<-EOT
          file="$NOMAD_TASK_DIR/../data/starts"
          starts=$(($(cat "$file" 2>/dev/null || echo 0) + 1))
          echo "$starts" > "$file"
          echo "start number $starts"
          exec sleep 1000000
        EOT
        ]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
