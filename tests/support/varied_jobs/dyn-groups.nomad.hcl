job "x" {
  dynamic "group" {
    for_each = range(3)
    labels   = ["g${group.value}"]
    content {
      count = group.key
      dynamic "task" {
        for_each = { a = "docker", b = "exec" }
        labels   = ["${task.key}-${group.value}"]
        content {
          driver = task.value
          config {
            image = "x:${group.value}"
          }
          dynamic "template" {
            for_each = ["p", "q"]
            content {
              data        = "${template.value}"
              destination = "local/${template.value}"
            }
          }
          dynamic "env" {
            for_each = [1]
            content {
              X = task.key
            }
          }
        }
      }
    }
  }
}
