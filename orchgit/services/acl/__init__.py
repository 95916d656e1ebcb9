"""Access control objects: bootstrap, tokens, policies, roles, logins."""
