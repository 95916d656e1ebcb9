"""What git says when a remote repository cannot be read, as a sentence with the way out. Pure."""

from __future__ import annotations

import re

from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.git.process import last_words
from orchgit.gitops.git.remotes import Remote

_STATUS = re.compile(r"requested URL returned error: (\d{3})")
_PROXY_STATUS = re.compile(r"CONNECT tunnel failed, response (\d{3})|HTTP code (\d{3}) from proxy")
_CERTIFICATE = re.compile(
    r"server certificate verification failed|server verification failed|SSL certificate problem"
)
_CUT = re.compile(
    r"early EOF|RPC failed|unexpected disconnect|hung up unexpectedly|bad pack header|"
    r"invalid index-pack output|transfer closed|Empty reply from server|"
    r"expected (?:flush|response end packet) after ref listing|pack has .* unresolved deltas"
)
_TEXTS: tuple[tuple[str, str], ...] = (
    (
        r"Could not resolve proxy",
        "the name of the proxy {proxy} cannot be resolved: check the proxy of the configuration",
    ),
    (
        r"Could not resolve host|unable to look up|Name or service not known",
        "the host name {host} cannot be resolved: check the URL, and the name servers of this "
        "machine",
    ),
    (
        r"does not match target host name|no alternative certificate subject name",
        "its certificate is not for {host}: use the name that the certificate is for",
    ),
    (
        r"Problem with the SSL CA cert|error setting certificate",
        "the file of certificates {ca} cannot be read: check ca_file of the configuration",
    ),
    (
        r"unable to use client certificate|could not load PEM client certificate|set private key",
        "the client certificate cannot be used: check client_cert_file and client_key_file of the "
        "credential",
    ),
    (
        r"unable to access.*(?:SSL_|GnuTLS|gnutls_handshake|alert)",
        "the TLS connection was ended by the server: does it want a client certificate "
        "(client_cert_file of a credential), or speak no TLS at this port?",
    ),
    (r"Operation too slow", "it sent nothing for {silence} s, the limit silence_timeout"),
    (
        r"IDENTIFICATION HAS CHANGED|Offending .* key",
        "the host key of {host} is not the one among the known hosts: somebody may stand between; "
        "if the host has a new key, put that into ssh_known_hosts of the configuration",
    ),
    (
        r"Host key verification failed|No .* host key is known",
        "the host key of {host} is not among the known hosts: compare what `ssh-keyscan` shows "
        "with the host's own word, and put it into ssh_known_hosts of the configuration",
    ),
    (
        r"Permission denied \(|Too many authentication failures",
        "the host refuses {login}: its key may be missing there, or the user of the URL is another",
    ),
    (
        r"Identity file .* not accessible|Load key .*:",
        "the key of the credential cannot be read: check ssh_key_file of the configuration",
    ),
    (
        r"could(?:n't| not) find remote ref|not our ref|no such remote ref",
        "the ref or commit went away while it was fetched; the next check lists the refs again",
    ),
    (
        r"[Nn]o such repository|does not appear to be a git repository|access denied or repository "
        r"not exported",
        "there is no git repository at {path}, or it may not be read",
    ),
    (
        r"signal 25|[Ff]ile too large|pack exceeds maximum|File size limit exceeded",
        "what is fetched is larger than the limit max_fetch_bytes, {max_fetch}: raise it in "
        "gitops {{ limits {{ ... }} }}, or follow a smaller repository",
    ),
    (r"[Cc]onnection refused|Couldn't connect to server", "{place} refuses connections"),
    (
        r"[Tt]imed out|No route to host|[Nn]etwork is unreachable|Connection timeout",
        "{place} does not answer: check the URL, the network and the proxy",
    ),
    (r"Permission denied", "this server's user may not read {path}"),
)
_OF_STATUS = {
    403: "access is refused (status 403): {login} has no right to this repository",
    404: "there is no repository at this URL, or {login} may not see it (status 404)",
    407: "the proxy wants a login (status 407): write it into the proxy's URL",
    429: "it asks for fewer requests (status 429): raise the source's PollInterval",
}


def explain(stderr: str, remote: Remote, limits: GitLimits) -> str:
    """Returns why the remote cannot be read, by git's standard error; git's own last words where
    they are not known here."""
    text = _template(stderr, remote)
    if not text:
        return last_words(stderr)
    credential, port = remote.credential, re.search(r":\d+$", remote.url.origin)
    place = remote.url.host or "the repository"
    if remote.proxy:
        place = f"the proxy {_shown(remote.proxy)}"
    elif port is not None or remote.url.protocol == "git":
        place = f"{place} port {remote.url.port}"
    return text.format(
        host=remote.url.host or "the repository",
        place=place,
        path=remote.url.path or "this URL",
        proxy=_shown(remote.proxy),
        ca=remote.ca_file or "given",
        login="the credential" if credential is not None else "a reader without a credential",
        silence=f"{limits.silence_timeout_s:g}",
        max_fetch=limits.max_fetch_bytes,
    )


def _template(stderr: str, remote: Remote) -> str:
    if "could not read Username" in stderr or "Authentication failed" in stderr:
        return _of_login(remote)
    found = _PROXY_STATUS.search(stderr)
    if found is not None:
        return f"the proxy {{proxy}} refuses the connection (status {found[1] or found[2]})"
    found = _STATUS.search(stderr)
    if found is not None:
        return _of_status(int(found[1]), remote)
    if re.search(r"repository '.*' not found", stderr):
        return _OF_STATUS[404]
    if is_certificate_problem(stderr):
        return (
            "its certificate is not signed by an authority that this server trusts: name the "
            "authority with ca_file of the source or credential"
        )
    for pattern, text in _TEXTS:
        if re.search(pattern, stderr):
            return text
    if _CUT.search(stderr):
        return "the answer was cut off before its end: {place} or a proxy ended the connection"
    if re.search(r"reset by peer|Broken pipe|Could not read from remote repository", stderr):
        return "{place} ended the connection before it answered"
    return ""


def _of_login(remote: Remote) -> str:
    if remote.credential is None:
        return "it wants a login (status 401): name a credential of the configuration in the source"
    return "it refuses the user or password of the source's credential (status 401)"


def _of_status(status: int, remote: Remote) -> str:
    if status == 401:
        return _of_login(remote)
    if status in _OF_STATUS:
        return _OF_STATUS[status]
    if 300 <= status < 400:
        return (
            f"it redirects to another address (status {status}), and redirects are not followed: "
            "use the address that it leads to"
        )
    if status >= 500:
        return f"{{place}} has an internal error or is overloaded (status {status})"
    return f"it refuses the request (status {status})"


def is_certificate_problem(stderr: str) -> bool:
    """Returns whether git refused the server's certificate; it may not say why."""
    return _CERTIFICATE.search(stderr) is not None


def _shown(proxy: str) -> str:
    """Returns the proxy's URL without its login."""
    return re.sub(r"//[^/@]*@", "//", proxy) or "none"
