"""Fetches job files that are named by an http:// or https:// address."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

from orchgit import __version__
from orchgit.cli.client.http_client import ApiError
from orchgit.printable import printable

MAX_BYTES = 4 << 20
_SILENCE_S = 30.0
_WHOLE_S = 120.0
_PIECE_BYTES = 1 << 16


def is_url(path: str) -> bool:
    return path.lower().startswith(("http://", "https://"))


def url_content(url: str, monotonic_s: Callable[[], float] = time.monotonic) -> bytes:
    """Returns what the address answers. The cluster's token is not sent there; a name and password
    in the address are. Raises ApiError, which never tells the password."""
    # Few commands are given an address, and every command should start fast.
    import http.client
    import urllib.error
    import urllib.request
    from base64 import b64encode
    from urllib.parse import unquote

    shown = without_password(url)
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        request = urllib.request.Request(  # noqa: S310 - http and https only, see is_url
            urlunsplit(parts._replace(netloc=host, fragment="")),
            headers={"User-Agent": f"orchgit/{__version__}"},
        )
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            basic = f"Basic {b64encode(pair.encode()).decode()}"
            # Where the answer leads elsewhere, the password does not go along.
            request.add_unredirected_header("Authorization", basic)
        until_s = monotonic_s() + _WHOLE_S
        content = b""
        with urllib.request.urlopen(request, timeout=_SILENCE_S) as answer:  # noqa: S310
            while piece := answer.read1(_PIECE_BYTES):
                content += piece
                if len(content) > MAX_BYTES:
                    raise ApiError(f"cannot read {shown}: it is larger than {MAX_BYTES} bytes")
                if monotonic_s() > until_s:
                    raise ApiError(f"cannot read {shown}: it takes longer than {_WHOLE_S:g} s")
            if answer.length:
                raise ApiError(f"cannot read {shown}: the server broke off; try again")
    except urllib.error.HTTPError as error:
        error.close()  # it is the answer too, with its connection
        said = printable(f"{error.code} {error.reason}")
        raise ApiError(f"cannot read {shown}: the server answered {said}") from None
    except urllib.error.URLError as error:
        raise ApiError(f"cannot read {shown}: {error.reason}") from None
    except TimeoutError:
        raise ApiError(f"cannot read {shown}: nothing came for {_SILENCE_S:g} s") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        said = printable(str(error)) or type(error).__name__
        raise ApiError(f"cannot read {shown}: {said}") from None
    return content


def without_password(url: str) -> str:
    """Returns the address as it may be shown."""
    head, slashes, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    return f"{head}{slashes}{place.rpartition('@')[2]}{slash}{path}"
