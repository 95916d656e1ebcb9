"""The built-in git remote: clone, fetch and push over smart HTTP."""
