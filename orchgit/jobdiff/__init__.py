"""What differs between two versions of a job: a yes or no (`spec`), or Nomad's report (`compare`).

Pure: no state, no policy. What a difference causes is the scheduler's business.
"""
