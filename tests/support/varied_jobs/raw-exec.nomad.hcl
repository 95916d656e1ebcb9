job "x" {
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "bash"
        args = ["-c", <<EOT
echo hi
EOT
        ]
        cgroup_v2_override = "x"
        oom_score_adj      = 10
        task_user          = "x"
      }
    }
  }
}
