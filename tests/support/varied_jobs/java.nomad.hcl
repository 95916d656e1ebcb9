job "x" {
  group "g" {
    task "t" {
      driver = "java"
      config {
        jar_path    = "local/a.jar"
        jvm_options = ["-Xmx2048m"]
        class       = "x"
      }
    }
  }
}
