"""`python -m orchgit` is the command line."""

from orchgit.cli.start import main

if __name__ == "__main__":
    main()
