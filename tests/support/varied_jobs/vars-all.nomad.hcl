variable "a" {
  type        = string
  default     = "x"
  description = "d"
  validation {
    condition     = strlen(var.a) > 0 && can(upper(var.a))
    error_message = "Must not be empty."
  }
}
variable "n" {
  type    = number
  default = 3
}
variable "b" {
  type    = bool
  default = "true"
}
variable "l" {
  type    = list(string)
  default = ["a", 1]
}
variable "s" {
  type    = set(number)
  default = [2, 1, 2]
}
variable "m" {
  type    = map(object({ port = number, tags = list(string) }))
  default = { web = { port = 80, tags = [] }, api = { port = "81", tags = ["x"] } }
}
variable "t" {
  type    = tuple([string, number])
  default = ["a", "2"]
}
variable "untyped" {
  default = { a = [1, 2] }
}
variables {
  legacy = "y"
  obj    = { x = 1 }
}
locals {
  names = sort(keys(var.m))
  full  = [for k, v in var.m : "${k}-${v.port}"]
  z     = local.y
  y     = var.b ? var.n : 0
}
job "x" {
  group "g" {
    count = local.z
    meta {
      names  = join(",", local.names)
      full   = join(",", local.full)
      legacy = var.legacy
      set    = "${length(var.s)}"
      t      = "${var.t[1] + 1}"
      u      = jsonencode(var.untyped)
    }
    dynamic "network" {
      for_each = [1]
      content {
        mode = "bridge"
        dynamic "port" {
          for_each = var.m
          iterator = p
          labels   = [p.key]
          content {
            to = p.value.port
          }
        }
      }
    }
    dynamic "service" {
      for_each = var.m
      content {
        name     = service.key
        port     = service.key
        provider = "nomad"
        tags     = concat(service.value.tags, ["k=${service.key}"])
      }
    }
    task "t" {
      driver = "docker"
      config {
        image = "redis:7"
      }
    }
  }
}
