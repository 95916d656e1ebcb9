"""Pages for people at `/ui/`: rendered here from the same answers of the API that programs get."""
