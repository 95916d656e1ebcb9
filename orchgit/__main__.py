"""`python -m orchgit` is the command line."""

from orchgit.cli.main import main

if __name__ == "__main__":
    main()
