job "x" {
  group "g" {
    task "t" {
      driver = "docker"
      artifact {
        source      = "https://example.com/a.tar.gz"
        destination = "local/x"
        mode        = "file"
        options {
          checksum = "md5:d2267250309a62b032b2b43312c81fec"
          archive  = false
        }
        headers {
          User-Agent = "nomad"
          X-Auth     = "a:${attr.unique.hostname}"
        }
      }
      artifact {
        source      = "git::git@github.com:example/repo"
        destination = "local/repo"
        insecure    = true
        chown       = true
        options {
          sshkey = "${base64encode(file("/etc/hostname"))}"
          depth  = 1
        }
      }
      artifact {
        source = "s3://bucket/key"
      }
    }
  }
}
