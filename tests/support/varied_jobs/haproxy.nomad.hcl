job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      template {
        data        = <<EOF
frontend http_front
   bind *:8080
backend http_back
    server-template mywebapp 10 _demo-webapp._tcp.service.consul resolvers consul resolve-opts allow-dup-ip
   {{- range nomadService "x" }}
   ${NOMAD_PORT_http} $$ %%d %s
   {{- end }}
EOF
        destination = "local/haproxy.cfg"
      }
    }
  }
}
