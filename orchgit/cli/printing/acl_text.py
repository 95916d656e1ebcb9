"""Prints access control objects as blocks of `Name = value` lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from orchgit.cli.printing.output import heading, pairs, plain, table

NONE = "<none>"
_CONFIG_KEYS = (
    ("JWT Validation Public Keys", "JWTValidationPubKeys"),
    ("JWKS URL", "JWKSURL"),
    ("OIDC Discovery URL", "OIDCDiscoveryURL"),
    ("OIDC Client ID", "OIDCClientID"),
    ("OIDC Client Secret", "OIDCClientSecret"),
    ("OIDC Enable PKCE", "OIDCEnablePKCE"),
    ("OIDC Disable UserInfo", "OIDCDisableUserInfo"),
    ("OIDC Scopes", "OIDCScopes"),
    ("Bound audiences", "BoundAudiences"),
    ("Bound issuer", "BoundIssuer"),
    ("Allowed redirects URIs", "AllowedRedirectURIs"),
    ("Discovery CA pem", "DiscoveryCaPem"),
    ("JWKS CA cert", "JWKSCACert"),
    ("Signing algorithms", "SigningAlgs"),
    ("Expiration Leeway", "ExpirationLeeway"),
    ("NotBefore Leeway", "NotBeforeLeeway"),
    ("ClockSkew Leeway", "ClockSkewLeeway"),
    ("Claim mappings", "ClaimMappings"),
    ("List claim mappings", "ListClaimMappings"),
)


def print_token(token: Mapping[str, Any]) -> None:
    """Prints a token with its secret; the roles of a client token follow as a table."""
    is_management = token["Type"] == "management"
    rows = [
        ("Accessor ID", token["AccessorID"]),
        ("Secret ID", token["SecretID"]),
        ("Name", token["Name"] or NONE),
        ("Type", token["Type"]),
        ("Global", _bool(token["Global"])),
        ("Create Time", _time(token["CreateTime"])),
        ("Expiry Time", _time(token["ExpirationTime"])),
        ("Create Index", token["CreateIndex"]),
        ("Modify Index", token["ModifyIndex"]),
        ("Policies", "n/a" if is_management else f"[{' '.join(token['Policies'] or ())}]"),
    ]
    if is_management:
        rows.append(("Roles", "n/a"))
    _pairs(rows)
    if is_management:
        return
    heading("Roles")
    table(
        ("ID", "Name"),
        ((plain(each["ID"]), plain(each["Name"])) for each in token["Roles"] or ()),
        empty=NONE,
    )


def print_role(role: Mapping[str, Any]) -> None:
    _pairs(
        [
            ("ID", role["ID"]),
            ("Name", role["Name"]),
            ("Description", role["Description"] or NONE),
            ("Policies", ",".join(each["Name"] for each in role["Policies"] or ()) or NONE),
            ("Create Index", role["CreateIndex"]),
            ("Modify Index", role["ModifyIndex"]),
        ]
    )


def print_policy(policy: Mapping[str, Any]) -> None:
    _pairs(
        [
            ("Name", policy["Name"]),
            ("Description", policy["Description"] or NONE),
            ("CreateIndex", policy["CreateIndex"]),
            ("ModifyIndex", policy["ModifyIndex"]),
        ]
    )
    if job := policy.get("JobACL"):
        heading("Associated Workload")
        _pairs((name, job[name] or NONE) for name in ("Namespace", "JobID", "Group", "Task"))
    heading("Rules\n")
    print_text(policy["Rules"])


def print_text(text: str) -> None:
    from orchgit.cli.printing.output import console

    for line in text.splitlines():
        console().print(plain(line))


def print_auth_method(method: Mapping[str, Any]) -> None:
    _pairs(
        [
            ("Name", method["Name"]),
            ("Type", method["Type"]),
            ("Locality", method["TokenLocality"]),
            ("Max Token TTL", method["MaxTokenTTL"]),
            ("Token Name Format", method["TokenNameFormat"]),
            ("Default", _bool(method["Default"])),
            ("Create Index", method["CreateIndex"]),
            ("Modify Index", method["ModifyIndex"]),
        ]
    )
    config = method["Config"]
    heading("Auth Method Config\n")
    _pairs((title, _shown(config.get(key))) for title, key in _CONFIG_KEYS)
    if config.get("OIDCClientAssertion"):
        _pairs([("OIDC Client Assertion", json.dumps(config["OIDCClientAssertion"]))])


def print_binding_rule(rule: Mapping[str, Any]) -> None:
    _pairs(
        [
            ("ID", rule["ID"]),
            ("Description", rule["Description"] or NONE),
            ("Auth Method", rule["AuthMethod"]),
            ("Selector", rule["Selector"] or NONE),
            ("Bind Type", rule["BindType"]),
            ("Bind Name", rule["BindName"] or NONE),
            ("Create Time", _time(rule["CreateTime"])),
            ("Modify Time", _time(rule["ModifyTime"])),
            ("Create Index", rule["CreateIndex"]),
            ("Modify Index", rule["ModifyIndex"]),
        ]
    )


def _pairs(rows: Iterable[tuple[str, object]]) -> None:
    pairs((name, plain(value)) for name, value in rows)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return _bool(value)
    if isinstance(value, list):
        return ",".join(str(each).strip() for each in value) or NONE
    if isinstance(value, dict):
        return "; ".join(f"{{{key}: {each}}}" for key, each in sorted(value.items())) or NONE
    return str(value or NONE).strip()


def _bool(value: object) -> str:
    return "true" if value else "false"


def _time(text: str | None) -> str:
    """Returns a time to the second; tokens that never expire say so."""
    return f"{text[:10]} {text[11:19]} UTC" if text else "<none>"
