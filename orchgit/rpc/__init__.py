"""gRPC servicers: `servers` for scheduler workers, `nodes` for agents. Entry point: `serve`."""
