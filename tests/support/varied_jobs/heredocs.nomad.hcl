job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      template {
        data        = <<EOF
a "quoted" \n not escaped
${upper("b")} %{ if true }yes%{ else }no%{ endif }
%{ for i in [1, 2] ~}
item ${i}
%{ endfor ~}
EOF
        destination = "local/a"
      }
      template {
        data        = <<-EOF
x
EOF
        destination = "local/b"
      }
    }
  }
}
