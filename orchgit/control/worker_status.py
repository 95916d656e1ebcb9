"""What a worker tells its pool about itself; apart, so that the pool loads nothing else of it."""

STARTED = "Started"
PAUSED = "Paused"
