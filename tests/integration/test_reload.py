"""SIGHUP: new certificates at every listener, the log level, and what needs a restart."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import ssl
from pathlib import Path

from tests.support.joining_servers import JoiningServer, joining_servers
from tests.support.polling import until_blocking
from tests.support.secure_cluster import Office, Papers


def shown_by(address: str, papers: Papers) -> bytes:
    """The certificate that a listener shows."""
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(papers.cert, papers.key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_connection((host, int(port)), 10) as plain:
        with context.wrap_socket(plain) as channel:
            found = channel.getpeercert(binary_form=True)
            assert found is not None
            return found


def wait_for(server: JoiningServer, text: str) -> None:
    """On a busy machine a server takes a long time to start."""
    until_blocking(lambda: text in server.log or None)


def hang_up(server: JoiningServer) -> None:
    assert server.process is not None
    server.process.send_signal(signal.SIGHUP)


def test_hangup_reloads_certificates_and_level_and_names_the_rest(tmp_path: Path) -> None:
    office = Office(tmp_path / "office")
    names = ("-additional-ipaddress", "127.0.0.1")
    first, second = (office.issue("server", *names) for _ in range(2))
    used = Papers(first.ca, tmp_path / "cert.pem", tmp_path / "key.pem")
    shutil.copy(first.cert, used.cert)
    shutil.copy(first.key, used.key)
    with joining_servers(tmp_path / "servers", 1) as (one,):
        one.server.pop("server_join", None)
        one.server["bootstrap_expect"] = 1
        one.settings |= {"tls": used.section(http=True), "log_level": "INFO"}
        one.start()
        wait_for(one, "server started")
        listeners = (one.http_address, one.rpc, one.raft)
        before = {shown_by(address, first) for address in listeners}
        assert before == {ssl.PEM_cert_to_DER_cert(first.cert.read_text())}

        shutil.copy(second.cert, used.cert)
        shutil.copy(second.key, used.key)
        one.settings["log_level"] = "DEBUG"
        one.server["num_schedulers"] = 2
        (one.directory / "agent.json").write_text(json.dumps(one.settings))
        hang_up(one)
        wait_for(one, "event=reloaded")
        wait_for(one, "log_level=DEBUG")
        wait_for(one, "settings=server.num_schedulers")
        wanted = {ssl.PEM_cert_to_DER_cert(second.cert.read_text())}
        assert {shown_by(address, first) for address in listeners} == wanted

        used.key.write_text("broken")
        hang_up(one)
        wait_for(one, "cannot reload; everything stays as it was")
        assert {shown_by(address, first) for address in listeners} == wanted
        until_blocking(lambda: one.runs or None)
