"""The `podman` driver: containers of Podman, through the Docker API of its service socket."""
