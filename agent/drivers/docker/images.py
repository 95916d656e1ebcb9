"""Images of an engine: found, pulled, loaded, removed. Blocking calls that raise `DriverError`."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import IO, Any

import requests
from docker.errors import APIError, DockerException, create_api_error_from_http_exception
from docker.utils.config import load_general_config
from urllib3.exceptions import HTTPError

from agent.drivers.docker.calls import explain, translated
from agent.drivers.docker.errors import NotThereError
from agent.drivers.docker.image_names import ImageName
from agent.drivers.docker.pull_progress import PullProgress
from orchgit.errors import DriverError

_CONNECT_TIMEOUT_S = 60
_CONFLICT = 409
_MAX_MESSAGE_BYTES = 1 << 20


class EngineImages:
    """The images of one engine."""

    def __init__(self, api: Any) -> None:
        self._api = api

    def find(self, image: ImageName) -> str:
        """The image's id; "" when the engine does not have it (for this platform)."""
        name = image.local_name
        with contextlib.suppress(NotThereError):
            found = translated(lambda: self._api.inspect_image(name), f"inspect image {name}")
            parts = (found.get("Os"), found.get("Architecture"), found.get("Variant"))
            if f"{'/'.join(map(str, parts))}/".startswith(
                f"{image.platform}/" * bool(image.platform)
            ):
                return str(found["Id"])
        return ""

    def pull(
        self,
        image: ImageName,
        auth_header: str,
        inactivity_s: float,
        progress: PullProgress,
        given_up: threading.Event,
    ) -> None:
        """Returns when the image is there.

        A failed pull is a recoverable error: the registry or the way to it may be down. So is one
        of which the engine tells nothing for `inactivity_s`, and one after `given_up` was set.
        """
        try:
            with contextlib.closing(self._begin(image, auth_header, inactivity_s)) as answer:
                for message in _messages(answer):
                    if given_up.is_set():
                        raise _pull_error(image, "nobody waits for it any more")
                    if "error" in message:
                        raise _pull_error(image, str(message["error"]))
                    progress.take(message)
        except (requests.Timeout, TimeoutError):
            raise _pull_error(image, f"no progress for {inactivity_s:g} s") from None
        except (DockerException, requests.RequestException, HTTPError, OSError) as error:
            slow = "timed out" in str(error).lower()
            why = f"no progress for {inactivity_s:g} s" if slow else explain(error)
            raise _pull_error(image, why) from None

    def load(self, archive: IO[bytes], name: str) -> list[str]:
        """Loads an archive of `docker save`; returns the images' names or ids."""
        what = f"load the image archive {name}"
        answer = translated(
            lambda: _checked(
                self._api.post(
                    f"{self._api.base_url}/v{self._api.api_version}/images/load",
                    data=iter(lambda: archive.read(1 << 20), b""),
                    headers={"Content-Type": "application/x-tar"},
                    stream=True,
                    timeout=None,
                )
            ),
            what,
        )
        loaded = []
        with contextlib.closing(answer):
            for message in translated(lambda: list(_messages(answer)), what):
                if "error" in message:
                    raise DriverError(f"cannot {what}: {message['error']}")
                text = str(message.get("stream", ""))
                loaded += [
                    text.removeprefix(begin).strip()
                    for begin in ("Loaded image: ", "Loaded image ID: ", "Loaded image(s): ")
                    if text.startswith(begin)
                ]
        return loaded

    def make(self, archive: bytes, name: ImageName, command: list[str]) -> str:
        """Makes an image of a tar archive's files; returns its id."""
        what = f"make image {name.given}"
        translated(
            lambda: self._api.import_image_from_data(
                archive,
                repository=name.repository,
                tag=name.reference,
                changes=[f"CMD {json.dumps(command)}"],
            ),
            what,
        )
        return self.find(name)

    def remove(self, image: str) -> bool:
        """False where a container or another name still uses it."""
        try:
            self._api.remove_image(image)
        except APIError as error:
            if error.status_code in (404, _CONFLICT):
                return False
            raise DriverError(f"cannot remove image {image}: {explain(error)}") from None
        except (DockerException, requests.RequestException) as error:
            raise DriverError(
                f"cannot remove image {image}: {explain(error)}", recoverable=True
            ) from None
        return True

    def _begin(self, image: ImageName, auth_header: str, inactivity_s: float) -> requests.Response:
        """The SDK's own `pull` has no time limit between two messages."""
        headers = dict(load_general_config().get("HttpHeaders") or {})
        if auth_header:
            headers["X-Registry-Auth"] = auth_header
        path = f"v{self._api.api_version}/images/create"
        params = {"fromImage": image.repository, "tag": image.reference}
        if image.platform:
            params["platform"] = image.platform
        if image.skip_tls_verify:  # only Podman's own API has it
            path = "v4.0.0/libpod/images/pull"
            params = {"reference": image.local_name, "tlsVerify": "false"}
        return _checked(
            self._api.post(
                f"{self._api.base_url}/{path}",
                params=params,
                headers=headers,
                stream=True,
                timeout=(_CONNECT_TIMEOUT_S, inactivity_s),
            )
        )


def _checked(answer: requests.Response) -> requests.Response:
    try:
        answer.raise_for_status()
    except requests.HTTPError as error:
        with contextlib.closing(answer):
            create_api_error_from_http_exception(error)
    return answer


def _messages(answer: requests.Response) -> Iterator[dict[str, Any]]:
    """The JSON objects that the engine writes one after the other."""
    decoder, text = json.JSONDecoder(), ""
    for data in answer.iter_content(chunk_size=None, decode_unicode=False):
        text += data.decode("utf-8", "replace")
        while text := text.lstrip():
            try:
                message, end = decoder.raw_decode(text)
            except ValueError:
                if len(text) > _MAX_MESSAGE_BYTES:
                    raise DriverError("cannot read the engine's answer: it is no JSON") from None
                break
            text = text[end:]
            if isinstance(message, dict):
                yield message


def _pull_error(image: ImageName, why: str) -> DriverError:
    return DriverError(f"cannot pull image {image.given}: {why}", recoverable=True)
