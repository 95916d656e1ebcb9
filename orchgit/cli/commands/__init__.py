"""One file per noun; each defines the click command of the same name."""
