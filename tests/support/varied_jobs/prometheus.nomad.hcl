job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      template {
        change_mode = "noop"
        destination = "local/prometheus.yml"
        data        = <<EOH
---
global:
  scrape_interval:     5s
scrape_configs:
  - job_name: 'nomad_metrics'
    consul_sd_configs:
    - server: '{{ env "NOMAD_IP_prometheus_ui" }}:8500'
    relabel_configs:
    - source_labels: ['__meta_consul_tags']
      regex: '(.*)http(.*)'
      replacement: '$1'
    metrics_path: /v1/metrics
EOH
      }
    }
  }
}
