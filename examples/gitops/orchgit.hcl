# orchgit.hcl lies at the root of a repository of job files, and nowhere else. It narrows what the
# settings of the source allow: what they forbid stays forbidden. Every part is optional.

# The sources whose jobs this repository's jobs need. A commit waits until each of them is healthy.
depends_on_sources = ["base"]

# A job waits for the jobs that it depends on:
#   "db"             until db is healthy (until it is complete, for a batch job that runs once)
#   "db:healthy"     until all of its work runs, and its deployment is successful
#   "load:complete"  until the batch job is complete
#   "db:registered"  until it is registered
# `meta = { "orchgit.depends_on" = "db,cache:registered" }` in the job's own file says the same.
job "web" {
  depends_on = ["db", "cache:registered"]
}

# A pre hook is a batch job for whose completion every other job waits, but for those that the
# hook itself depends on. If the hook fails, nothing after it is applied.
hook "migrate" {
  stage = "pre"
  job   = "db-migrate"
  run   = "on_change" # when the job's content changes; "each_commit": with every commit
}

job "db-migrate" {
  depends_on = ["db"]
}

# A post hook runs when every other job is healthy.
hook "smoke-test" {
  stage = "post"
  job   = "smoke-test"
  run   = "each_commit"
}

# Commits are applied only within an allow window (if there is one), and never within a deny window.
window "working hours" {
  allow     = "0 9 * * MON-FRI"
  duration  = "8h"
  time_zone = "Europe/Berlin"
}

window "end of year" {
  deny     = "0 0 20 12 *"
  duration = "336h"
}

# What a commit needs before it is applied, and what happens if it is not healthy in time.
gate {
  health      = "revert" # or "report"
  deadline    = "15m"
  require_fit = true
  approvals   = 1
}

# Which jobs a commit may delete. Only what is stricter than the source's setting has an effect.
prune {
  max_share_percent = 20
}

# What concerns one of several sources of the repository alone. Of two limits the stricter one holds.
source "shop-production" {
  gate {
    approvals = 2
  }
}
