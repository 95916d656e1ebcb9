"""What git and ssh of several versions say of a remote, as a sentence with the way out."""

import pytest

from orchgit.gitops.git.credentials import GitCredential
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.git.remote_errors import explain
from orchgit.gitops.git.remotes import Remote
from orchgit.gitops.git.urls import parse_url

HTTPS = Remote(parse_url("https://git.example:8443/team/jobs.git"))
SSH = Remote(parse_url("ssh://git@git.example:2222/team/jobs.git"))
KEY = GitCredential("https://git.example:8443", "ada", "s3cret")
WITH_LOGIN = Remote(HTTPS.url, KEY)
PROXIED = Remote(HTTPS.url, proxy="http://user:s3cret@proxy.example:3128")
UNABLE = "fatal: unable to access 'https://git.example:8443/team/jobs.git/': "


@pytest.mark.parametrize(
    ("remote", "stderr", "expected"),
    [
        (HTTPS, "Could not resolve host: git.example", "the host name git.example cannot be"),
        (HTTPS, "Failed to connect to git.example port 8443: Connection refused", "port 8443 ref"),
        (HTTPS, "Failed to connect to git.example port 8443 after 130 ms: Couldn't connect to "
         "server", "git.example port 8443 refuses connections"),
        (HTTPS, "Failed to connect to git.example port 8443: Connection timed out", "does not ans"),
        (HTTPS, "SSL certificate problem: certificate has expired", "is not signed by an"),
        (HTTPS, "SSL certificate problem: self-signed certificate", "name the authority"),
        (HTTPS, "server verification failed: certificate signer not trusted. (CAfile: none",
         "is not signed by an authority"),
        (HTTPS, "SSL: no alternative certificate subject name matches target host name 'x'",
         "its certificate is not for git.example"),
        (HTTPS, "OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection", "the TLS connection was"),
        (HTTPS, "GnuTLS recv error (-110): The TLS connection was non-properly terminated.",
         "does it want a client certificate"),
        (HTTPS, "The requested URL returned error: 403", "a reader without a credential has no"),
        (WITH_LOGIN, "The requested URL returned error: 403", "the credential has no right"),
        (WITH_LOGIN, "The requested URL returned error: 401", "refuses the user or password"),
        (HTTPS, "The requested URL returned error: 502", "internal error or is overloaded (sta"),
        (HTTPS, "The requested URL returned error: 302", "redirects are not followed"),
        (PROXIED, "Could not resolve proxy: proxy.example", "the name of the proxy http://proxy"),
        (PROXIED, "Received HTTP code 407 from proxy after CONNECT", "refuses the connection (sta"),
        (PROXIED, "CONNECT tunnel failed, response 403", "http://proxy.example:3128 refuses the"),
    ],
)  # fmt: skip
def test_word_of_curl_is_a_sentence(remote: Remote, stderr: str, expected: str) -> None:
    found = explain(UNABLE + stderr + "\n", remote, GitLimits())
    assert expected in found
    assert "s3cret" not in found
    assert "fatal" not in found


@pytest.mark.parametrize(
    ("remote", "stderr", "expected"),
    [
        (HTTPS, "fatal: could not read Username for 'https://x': terminal prompts disabled",
         "it wants a login (status 401): name a credential"),
        (WITH_LOGIN, "fatal: Authentication failed for 'https://x/'", "refuses the user or pass"),
        (HTTPS, "remote: Not Found\nfatal: repository 'https://x/' not found", "(status 404)"),
        (HTTPS, "error: RPC failed; curl 56 GnuTLS recv error (-9): Error\nfatal: early EOF\n"
         "fatal: fetch-pack: invalid index-pack output", "was cut off before its end"),
        (HTTPS, "fatal: the remote end hung up unexpectedly", "was cut off before its end"),
        (HTTPS, "error: index-pack died of signal 25\nfatal: fetch-pack: invalid index-pack output",
         "the limit max_fetch_bytes"),
        (HTTPS, "fatal: couldn't find remote ref refs/heads/main", "went away while it was"),
        (HTTPS, "fatal: remote error: upload-pack: not our ref 0123", "went away while it was"),
        (SSH, "Host key verification failed.\nfatal: Could not read from remote repository.",
         "the host key of git.example is not among the known hosts"),
        (SSH, "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
         "is not the one among the known hosts"),
        (SSH, "git@git.example: Permission denied (publickey).\nfatal: Could not read from remote",
         "the host refuses a reader without a credential"),
        (SSH, "ssh: Could not resolve hostname git.example: Temporary failure", "cannot be resolv"),
        (SSH, "ssh: connect to host git.example port 2222: No route to host", "does not answer"),
        (SSH, "ssh: connect to host git.example port 2222: Connection refused",
         "git.example port 2222 refuses connections"),
        (SSH, "kex_exchange_identification: read: Connection reset by peer", "ended the conn"),
        (SSH, "fatal: '/x.git' does not appear to be a git repository", "no git repository at"),
        (HTTPS, "fatal: something new\n", "fatal: something new"),
        (HTTPS, "", "it said nothing"),
    ],
)  # fmt: skip
def test_word_of_git_and_ssh_is_a_sentence(remote: Remote, stderr: str, expected: str) -> None:
    assert expected in explain(stderr, remote, GitLimits())
