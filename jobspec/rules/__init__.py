"""The server's rules for jobs, by what they are about. All are pure: a job in, findings out.

Texts are Nomad's own, since clients show and match them.
"""
