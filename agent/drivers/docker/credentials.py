"""Credentials of a registry: the job's own, those of a config file, those of a helper program."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from pathlib import Path
from typing import Any

import msgspec

from agent.drivers.docker.config import AuthConfig
from agent.drivers.docker.image_names import DOCKER_HUB, ImageName
from agent.drivers.docker.options import DockerAuthOptions
from orchgit.child import DEVNULL, PIPE, start_child
from orchgit.errors import DriverError

HELPER_TIMEOUT_S = 30.0
_HUB_KEYS = ("https://index.docker.io/v1/", "index.docker.io", DOCKER_HUB)
_TOKEN_USER = "<token>"  # noqa: S105 -- the helpers' protocol has this name for "no user"
_MAX_ANSWER_BYTES = 64 << 10


class RegistryLogin(msgspec.Struct, frozen=True):
    """What a pull shows to the registry."""

    username: str = ""
    password: str = ""
    email: str = ""
    server_address: str = ""
    identity_token: str = ""

    def header(self) -> str:
        """The value of `X-Registry-Auth`."""
        fields = {
            "username": self.username,
            "password": self.password,
            "email": self.email,
            "serveraddress": self.server_address,
            "identitytoken": self.identity_token,
        }
        given = {name: value for name, value in fields.items() if value}
        return base64.urlsafe_b64encode(json.dumps(given).encode()).decode()


async def find_login(
    image: ImageName, own: AuthConfig | None, options: DockerAuthOptions
) -> RegistryLogin | None:
    """The job's `auth` wins over the agent's config file, and that over the agent's helper.

    DriverError where a file or a helper cannot be used; None where nobody knows of the registry.
    """
    if own is not None and (own.username or own.password):
        address = own.server_address or image.registry
        return RegistryLogin(own.username, own.password, own.email, address)
    if options.config:
        found = await _of_config(Path(options.config), image)
        if found is not None:
            return found
    if options.helper:
        return await _of_helper(options.helper, image.registry)
    return None


async def _of_config(path: Path, image: ImageName) -> RegistryLogin | None:
    try:
        file = json.loads(await asyncio.to_thread(path.read_text))
    except (OSError, ValueError) as error:
        raise DriverError(f"cannot read the auth config {path}: {error}") from None
    if not isinstance(file, dict):
        raise DriverError(f"cannot read the auth config {path}: it is no JSON object")
    names = _HUB_KEYS if image.registry == DOCKER_HUB else (image.registry,)
    helpers = file.get("credHelpers") or {}
    for name in names:
        if name in helpers:
            return await _of_helper(str(helpers[name]), name)
    for address, entry in (file.get("auths") or {}).items():
        if _host(address) in {_host(name) for name in names} and entry:
            login = _of_entry(entry, address, path)
            if login is not None:
                return login
    if store := file.get("credsStore"):
        return await _of_helper(str(store), names[0])
    return None


def _of_entry(entry: dict[str, Any], address: str, path: Path) -> RegistryLogin | None:
    username, password = str(entry.get("username", "")), str(entry.get("password", ""))
    if encoded := entry.get("auth"):
        try:
            text = base64.b64decode(str(encoded), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise DriverError(
                f"cannot read the auth config {path}: the entry {address} is not in base64"
            ) from None
        username, _, password = text.partition(":")
    token = str(entry.get("identitytoken", ""))
    if not (username or token):
        return None
    return RegistryLogin(username, password.strip("\0"), "", address, token)


def _host(address: str) -> str:
    return address.removeprefix("https://").removeprefix("http://").partition("/")[0]


async def _of_helper(name: str, registry: str) -> RegistryLogin | None:
    """Asks `docker-credential-NAME`; it answers an error for a registry that it does not know."""
    program = f"docker-credential-{name}"
    try:
        child = await start_child(program, "get", stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    except OSError as error:
        raise DriverError(f"cannot run {program}: {error.strerror}", recoverable=True) from None
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        async with asyncio.timeout(HELPER_TIMEOUT_S):
            child.stdin.write(registry.encode())
            child.stdin.close()
            answer = b""
            while len(answer) < _MAX_ANSWER_BYTES and (data := await child.stdout.read(65536)):
                answer += data
            code = await child.wait()
    except TimeoutError:
        raise DriverError(
            f"cannot get credentials of {program}: no answer within {HELPER_TIMEOUT_S:g} s",
            recoverable=True,
        ) from None
    finally:
        child.kill()
        child.close()
    text = answer.decode("utf-8", "replace").strip()
    if code:
        if "credentials not found" in text:
            return None
        raise DriverError(f"cannot get credentials of {program}: {text[:200]}", recoverable=True)
    try:
        told = json.loads(text)
        user, secret = str(told["Username"]), str(told["Secret"])
    except (ValueError, KeyError, TypeError):
        raise DriverError(
            f"cannot get credentials of {program}: it did not answer Username and Secret"
        ) from None
    if user == _TOKEN_USER:
        return RegistryLogin(server_address=registry, identity_token=secret)
    return RegistryLogin(user, secret, "", registry)
