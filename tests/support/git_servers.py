"""Real git servers on loopback, which break on demand: http-backend, daemon and sshd."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import getpass
import os
import random
import shutil
import socket
import ssl
import subprocess
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.fault_proxy import Link
from tests.support.polling import until
from tests.support.ports import free_ports

LOGIN_PAGE = b"<!DOCTYPE html><html><title>Sign in</title><form>password</form></html>"
_REASONS = {200: "OK", 301: "Moved", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found"}


@dataclass
class Seen:
    """One request of git, as the server got it."""

    method: str
    target: str
    headers: dict[str, str]


@dataclass
class GitHttpServer:
    """`git http-backend` for the repositories in a directory.

    `status`: every answer has it, without content. `redirect`: the place that a 301 leads to.
    `page`: an HTML page with status 200 is every answer. `empty`: the advertisement has no refs.
    `silent`: no answer ever comes. `cut_after`: an answer of upload-pack ends after so many bytes,
    with its length as promised. `login`: user and password that have to be sent.
    """

    root: Path
    tls: ssl.SSLContext | None = None
    status: int = 0
    redirect: str = ""
    page: bytes = b""
    empty: bool = False
    silent: bool = False
    cut_after: int = 0
    login: tuple[str, str] | None = None
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    def mend(self) -> None:
        """Serves as it should from now on."""
        self.status, self.redirect, self.page = 0, "", b""
        self.empty, self.silent, self.cut_after, self.login = False, False, 0, None

    @property
    def origin(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def listings(self) -> int:
        """How many times refs were asked for."""
        return sum("info/refs" in each.target for each in self.seen)

    def url(self, name: str) -> str:
        return f"{self.origin}/{name}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[GitHttpServer]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._answer(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            with contextlib.suppress(OSError, ssl.SSLError):
                writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answers one request; returns whether another may follow."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ", 2)
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        self.seen.append(Seen(method, target, headers))
        body = await _body(reader, headers)
        if self.silent:
            await reader.read()
            return False
        status, more, content = await self._content(method, target, headers, body)
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}", *more]
        lines.append(f"Content-Length: {len(content)}")
        cut = self.cut_after if "git-upload-pack" in target and method == "POST" else 0
        writer.write(
            ("\r\n".join(lines) + "\r\n\r\n").encode() + (content[:cut] if cut else content)
        )
        await writer.drain()
        return not cut

    async def _content(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[str], bytes]:
        given = headers.get("authorization", "").removeprefix("Basic ")
        if self.login and given != base64.b64encode(":".join(self.login).encode()).decode():
            return 401, ['WWW-Authenticate: Basic realm="git"'], b""
        if self.redirect:
            return 301, [f"Location: {self.redirect}{target}"], b""
        if self.status:
            more = ['WWW-Authenticate: Basic realm="git"'] if self.status == 401 else []
            return self.status, more, b""
        if self.page:
            return 200, ["Content-Type: text/html"], self.page
        if self.empty:
            kind = "Content-Type: application/x-git-upload-pack-advertisement"
            return 200, [kind], b"001e# service=git-upload-pack\n00000000"
        return await self._run_backend(method, target, headers, body)

    async def _run_backend(
        self, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[str], bytes]:
        if target.startswith("http://"):  # as proxies get it, on a connection that goes on
            target = "/" + target.split("/", 3)[3]
        path, _, query = target.partition("?")
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": method,
            "CONTENT_TYPE": headers.get("content-type", ""),
            "GIT_PROTOCOL": headers.get("git-protocol", ""),
        }
        process = await asyncio.create_subprocess_exec(
            "git", "http-backend", env=environment,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        output, _ = await process.communicate(body)
        head, _, content = output.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        status = next((int(line.split()[1]) for line in lines if line.startswith("Status:")), 200)
        return status, [line for line in lines if not line.startswith("Status:")], content


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") == "chunked":
        data = b""
        while size := int((await reader.readline()).split(b";")[0], 16):
            data += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    else:
        data = await reader.readexactly(int(headers.get("content-length", 0)))
    if headers.get("content-encoding") in ("gzip", "x-gzip"):
        return zlib.decompress(data, 16 + zlib.MAX_WBITS)
    return data


@dataclass
class HttpProxy:
    """A forward proxy: it tunnels CONNECT, and hands on requests with a whole URL. `refuses`: it
    answers 403. `login`: the Proxy-Authorization that has to be sent."""

    refuses: bool = False
    login: str = ""
    asked: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[HttpProxy]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, target, _ = head.split(" ", 2)
            self.asked.append(f"{method} {target}")
            if self.refuses or (self.login and self.login not in head):
                writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                writer.close()
                return
            place = target if method == "CONNECT" else target.split("/")[2]
            host, _, port = place.partition(":")
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            else:
                path = "/" + target.split("/", 3)[3]
                far_writer.write(head.replace(target, path, 1).encode("latin-1"))
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def git_daemon(root: Path) -> AsyncIterator[int]:
    """A real `git daemon` on loopback for all repositories below a directory; yields its port."""
    (port,) = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        "git", "daemon", "--listen=127.0.0.1", f"--port={port}", f"--base-path={root}",
        "--export-all", "--reuseaddr", "--informative-errors", str(root),
        env={**os.environ, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
             "GIT_CONFIG_VALUE_0": "*"},
        stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip

    def answers() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    try:
        await until(answers, 120)
        yield port
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 15)
        await process.wait()


def make_keys(directory: Path) -> None:
    """Keys of a host and of a user."""
    directory.mkdir()
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name], check=True
        )


@dataclass(frozen=True)
class SshServer:
    """A real sshd on loopback. `user_key` is a file, `known_hosts` the line that names its key."""

    port: int
    user_key: Path
    host_key: str

    @property
    def known_hosts(self) -> str:
        return self.known_hosts_at(self.port)

    def known_hosts_at(self, port: int) -> str:
        return f"[127.0.0.1]:{port} {self.host_key}\n"

    def url(self, path: Path, port: int = 0) -> str:
        return f"ssh://{getpass.getuser()}@127.0.0.1:{port or self.port}{path}"


@asynccontextmanager
async def ssh_server(directory: Path) -> AsyncIterator[SshServer]:
    """An sshd with its own keys, for this user only."""
    make_keys(directory)
    (port,) = free_ports(1)
    shutil.copy(directory / "user.pub", directory / "authorized")
    host_key = " ".join((directory / "host.pub").read_text().split()[:2])
    (directory / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\n"
        f"AuthorizedKeysFile {directory}/authorized\nStrictModes no\nUsePAM no\n"
        f"PidFile {directory}/pid\nPermitRootLogin yes\nPasswordAuthentication no\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        "/usr/sbin/sshd", "-D", "-e", "-f", str(directory / "config"),
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            while b"Server listening" not in await process.stderr.readline():
                assert process.returncode is None
        yield SshServer(port, directory / "user", host_key)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()


@asynccontextmanager
async def faulty_link(port: int) -> AsyncIterator[tuple[Link, int]]:
    """A link to a port of this machine, and the port at which it listens."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    link = Link(random.Random(1))

    def dial() -> socket.socket:
        near = socket.socket()
        near.setblocking(False)
        return near

    link.listen(listener, ("127.0.0.1", port), dial)
    try:
        yield link, listener.getsockname()[1]
    finally:
        await link.close()


def server_context(cert: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """TLS of a server; with `client_ca` clients have to show a certificate of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_ca)
    return context
