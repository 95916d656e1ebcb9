"""Autopilot's settings, and the servers' health."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.routing import endpoint
from orchgit.api.shapes import nomad_json
from orchgit.control.watchers.autopilot import ServerHealth
from orchgit.durations import parse_setting_ns, to_text
from orchgit.model.base import NS_PER_S, datetime_of_ns
from orchgit.model.operator import AutopilotConfig
from orchgit.services.cluster.autopilot_config import set_autopilot_config

_NEVER_S = 1e9
_DURATIONS = ("LastContactThreshold", "ServerStabilizationTime")


async def configuration(call: ApiCall) -> Response:
    with call.context.snapshot() as snapshot:
        config = snapshot.autopilot_config.get()
    # Durations are texts here, unlike anywhere else in Nomad's API.
    tree: dict[str, Any] = msgspec.to_builtins(config)
    return call.answer({**tree, **{name: to_text(tree[name]) for name in _DURATIONS}})


async def set_configuration(call: ApiCall) -> Response:
    sent = nomad_json.decode_tree(await call.body(), "api.AutopilotConfiguration")
    if "cas" not in call.query:
        nomad_json.check_names_any(sent, AutopilotConfig, "autopilot's configuration")
    body = nomad_json.fold_keys(sent, AutopilotConfig)
    for name in _DURATIONS:
        if isinstance(body.get(name), str):
            body[name] = parse_setting_ns(name, body[name])
    config = nomad_json.convert(body, AutopilotConfig)
    expected = call.number("cas") if "cas" in call.query else None
    _, updated = await set_autopilot_config(call.context, config, expected)
    return call.answer(updated)


async def health(call: ApiCall) -> Response:
    """Returns the servers' health; an unhealthy cluster is an answer too, with Nomad's status for
    it."""
    found = call.api.cluster.autopilot_health()
    value = {
        "Healthy": found.healthy,
        "FailureTolerance": found.failure_tolerance,
        "Servers": [_server(one, found.term) for one in found.servers],
        "Leader": next((_id(one) for one in found.servers if one.view.leads), ""),
        "Voters": [_id(one) for one in found.servers if one.view.voter],
    }
    return call.answer(value, status=200 if found.healthy else 429)


def _id(one: ServerHealth) -> str:
    return one.record.id or one.record.address


def _server(one: ServerHealth, term: int) -> dict[str, Any]:
    silent_s = one.view.silent_s
    return {
        "ID": _id(one),
        "Name": f"{one.record.name}.{one.record.region}" if one.record.name else "(unknown)",
        "Address": one.record.address,
        "SerfStatus": "alive" if one.alive else "failed",
        "Version": one.record.build,
        "Leader": one.view.leads,
        "LastContact": to_text(int(min(silent_s, _NEVER_S) * NS_PER_S)),
        "LastTerm": term,
        "LastIndex": one.last_index,
        "Healthy": one.healthy,
        "Voter": one.view.voter,
        "StableSince": datetime_of_ns(one.stable_since_ns),
    }


ENDPOINTS = [
    endpoint("/v1/operator/autopilot/configuration", get=configuration, put=set_configuration),
    endpoint("/v1/operator/autopilot/health", get=health),
]
