"""The defaults of the API, the typed job that the server stores, and its one stored form."""
