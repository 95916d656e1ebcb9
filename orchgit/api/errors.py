"""How servers send errors over HTTP: the text is the body, as in Nomad."""

from __future__ import annotations

from starlette.responses import Response


def text_response(text: str, status: int, headers: dict[str, str] | None = None) -> Response:
    """Returns plain text, as errors are sent; `vary` is on every answer."""
    return Response(
        text,
        status_code=status,
        headers={**VARY, **(headers or {})},
        media_type="text/plain",
    )


VARY = {"Vary": "Accept-Encoding"}
