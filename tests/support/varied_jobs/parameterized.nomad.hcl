job "x" {
  type = "batch"
  parameterized {
    payload       = "required"
    meta_required = ["a"]
    meta_optional = ["b"]
  }
  group "g" {
    task "t" {
      driver = "exec"
      config {
        command = "cat"
        args    = ["${NOMAD_META_a}", "local/in"]
      }
      dispatch_payload {
        file = "in"
      }
    }
  }
}
