"""Access control objects as they are stored: tokens, policies, roles, auth methods, binding rules.

No struct holds a secret in plain: a token's secret is stored as its SHA-256, by which requests find
the token, and as ciphertext, which answers to management show (docs/security.md). `digest`
is that of an object's contents, as Nomad computes it and writes it in base64.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from enum import StrEnum

from msgspec import field
from msgspec.structs import replace

from orchgit.model.base import Model

ANONYMOUS = "anonymous"
"""Accessor id of requests without a token, and the name of the policy that they get."""


GLOBAL, LOCAL = "global", "local"
"""Localities of the tokens that an auth method makes."""


class TokenType(StrEnum):
    CLIENT = "client"
    MANAGEMENT = "management"


class AuthMethodType(StrEnum):
    OIDC = "OIDC"
    JWT = "JWT"


class BindType(StrEnum):
    ROLE = "role"
    POLICY = "policy"
    MANAGEMENT = "management"


class SealedSecret(Model):
    """The ciphertext of a secret under the root key `key_id`."""

    key_id: str = ""
    sealed: bytes = b""


class RoleLink(Model):
    """A token's role: found by `id`; `name` is what it was called when the token was written."""

    id: str = ""
    name: str = ""


class AclToken(Model):
    """A token. `expiration_time_ns` is 0 for a token that never expires.

    `policies` and `roles` are None where the token's author named none. A renamed role keeps its
    tokens, and a deleted role gives no rights.
    """

    accessor_id: str = ""
    secret_hash: str = ""
    secret: SealedSecret = field(default_factory=SealedSecret)
    name: str = ""
    type: str = ""
    policies: list[str] | None = None
    roles: list[RoleLink] | None = None
    is_global: bool = field(default=False, name="Global")
    digest: str = field(default="", name="Hash")
    expiration_ttl_ns: int = 0
    expiration_time_ns: int = 0
    create_time_ns: int = 0
    create_index: int = 0
    modify_index: int = 0

    @property
    def key_id(self) -> str:
        """The root key that seals the token's secret."""
        return self.secret.key_id

    @property
    def sealed_for(self) -> str:
        """The owner to which the sealed secret is bound."""
        return f"acl:token:{self.accessor_id}"

    def is_expired(self, now_ns: int) -> bool:
        return 0 < self.expiration_time_ns <= now_ns


class JobAcl(Model):
    """The workload that a policy is bound to, from the whole namespace down to one task."""

    namespace: str = ""
    job_id: str = ""
    group: str = ""
    task: str = ""


class AclPolicy(Model):
    """A policy; `rules` is its text as its author wrote it."""

    name: str = ""
    description: str = ""
    rules: str = ""
    job_acl: JobAcl | None = field(default=None, name="JobACL")
    digest: str = field(default="", name="Hash")
    create_index: int = 0
    modify_index: int = 0


class PolicyLink(Model):
    name: str = ""


class AclRole(Model):
    """A role: a named set of policies."""

    id: str = ""
    name: str = ""
    description: str = ""
    policies: list[PolicyLink] = []
    digest: str = field(default="", name="Hash")
    create_index: int = 0
    modify_index: int = 0


class ClientAssertionKey(Model):
    """The key with which a client assertion is signed; its PEM text is sealed with the secrets of
    its auth method."""

    pem_key: str = ""
    pem_key_file: str = ""
    pem_cert: str = ""
    pem_cert_file: str = ""
    key_id: str = ""
    key_id_header: str = field(default="", name="KeyIDHeader")


class ClientAssertion(Model):
    """How an OIDC provider is told who asks, by a signed text instead of a client secret."""

    audience: list[str] | None = None
    key_source: str = ""
    key_algorithm: str = ""
    private_key: ClientAssertionKey | None = None
    extra_headers: dict[str, str] | None = None


class AuthMethodConfig(Model):
    """The settings of an auth method. A word stands in place of each of its secrets, see
    `AuthMethodSecrets`."""

    expiration_leeway_ns: int = 0
    not_before_leeway_ns: int = 0
    clock_skew_leeway_ns: int = 0
    jwt_validation_pub_keys: list[str] | None = field(default=None, name="JWTValidationPubKeys")
    jwks_url: str = field(default="", name="JWKSURL")
    oidc_discovery_url: str = field(default="", name="OIDCDiscoveryURL")
    oidc_client_id: str = field(default="", name="OIDCClientID")
    oidc_client_secret: str = field(default="", name="OIDCClientSecret")
    oidc_client_assertion: ClientAssertion | None = field(default=None, name="OIDCClientAssertion")
    oidc_enable_pkce: bool = field(default=False, name="OIDCEnablePKCE")
    oidc_disable_user_info: bool = field(default=False, name="OIDCDisableUserInfo")
    oidc_scopes: list[str] | None = field(default=None, name="OIDCScopes")
    bound_audiences: list[str] | None = None
    bound_issuer: list[str] | None = None
    allowed_redirect_uris: list[str] | None = field(default=None, name="AllowedRedirectURIs")
    discovery_ca_pem: list[str] | None = None
    jwks_ca_cert: str = field(default="", name="JWKSCACert")
    signing_algs: list[str] | None = None
    claim_mappings: dict[str, str] | None = None
    list_claim_mappings: dict[str, str] | None = None
    verbose_logging: bool = False


class AuthMethodSecrets(Model):
    """What of an auth method is sealed."""

    oidc_client_secret: str = ""
    assertion_pem_key: str = ""

    def __repr__(self) -> str:
        """Keeps the secrets out of tracebacks and logs."""
        return "AuthMethodSecrets(...)"


class AclAuthMethod(Model):
    """A way to log in. `secrets` is None where the method has none."""

    name: str = ""
    type: str = ""
    token_locality: str = ""
    token_name_format: str = ""
    max_token_ttl_ns: int = 0
    default: bool = False
    config: AuthMethodConfig | None = None
    secrets: SealedSecret | None = None
    digest: str = field(default="", name="Hash")
    create_time_ns: int = 0
    modify_time_ns: int = 0
    create_index: int = 0
    modify_index: int = 0

    @property
    def makes_global_tokens(self) -> bool:
        return self.token_locality == GLOBAL

    @property
    def key_id(self) -> str:
        """The root key that seals the method's secrets; "" where it has none."""
        return self.secrets.key_id if self.secrets else ""

    @property
    def sealed_for(self) -> str:
        """The owner to which the sealed secrets are bound."""
        return f"acl:auth-method:{self.name}"


class AclBindingRule(Model):
    """What a login by an auth method gives to those whose claims the selector matches."""

    id: str = ""
    description: str = ""
    auth_method: str = ""
    selector: str = ""
    bind_type: str = ""
    bind_name: str = ""
    digest: str = field(default="", name="Hash")
    create_time_ns: int = 0
    modify_time_ns: int = 0
    create_index: int = 0
    modify_index: int = 0


class OneTimeToken(Model):
    """Stands for a token once, until `expires_at_ns`; only the SHA-256 of its secret is stored."""

    secret_hash: str = ""
    accessor_id: str = ""
    expires_at_ns: int = 0
    create_index: int = 0
    modify_index: int = 0


def without_secret(token: AclToken) -> AclToken:
    """Returns the token as others than its finder may look at it."""
    return replace(token, secret_hash="", secret=SealedSecret())


def secret_hash(secret: str) -> str:
    """Returns what is stored in place of a secret, for finding its owner."""
    return hashlib.sha256(secret.encode()).hexdigest()


def contents_digest(parts: Iterable[str | bytes]) -> str:
    """Returns the value of `digest` for an object of these contents, in Nomad's order."""
    digest = hashlib.blake2b(digest_size=32)
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
    return base64.b64encode(digest.digest()).decode()
