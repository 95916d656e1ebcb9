"""Reads the section `client.template` into the agent's settings of templates."""

from __future__ import annotations

from agent.templates.functions import DENIED
from agent.templates.settings import TemplateSettings, WaitTimes
from orchgit.configuration.schema import TemplateSection, WaitSection
from orchgit.durations import parse_setting_ns
from orchgit.errors import InvalidInputError

_NS_PER_S = 1e9
_UNLIMITED_S = 365.0 * 86400


def template_settings(section: TemplateSection) -> TemplateSettings:
    """Returns the settings; a `max_backoff` of 0 is no limit. Raises InvalidInputError, which names
    the key."""
    denied = section.function_denylist
    if denied is None:
        denied = section.function_blacklist
    bounds = section.wait_bounds
    first_ns, most_ns = (
        parse_setting_ns(f"client.template.nomad_retry.{name}", getattr(section.nomad_retry, name))
        for name in ("backoff", "max_backoff")
    )
    wait_ns = parse_setting_ns("client.template.block_query_wait", section.block_query_wait)
    return TemplateSettings(
        denied=DENIED if denied is None else tuple(denied),
        is_sandboxed=not section.disable_file_sandbox,
        wait=_times("wait", section.wait),
        wait_bounds=None if bounds is None else _times("wait_bounds", bounds),
        query_wait_s=wait_ns / _NS_PER_S,
        first_backoff_s=first_ns / _NS_PER_S,
        max_backoff_s=most_ns / _NS_PER_S or _UNLIMITED_S,
        use_consul_token=section.use_client_consul_token,
    )


def _times(name: str, section: WaitSection) -> WaitTimes:
    key = f"client.template.{name}"
    low_ns, high_ns = (
        parse_setting_ns(f"{key}.{end}", getattr(section, end)) if getattr(section, end) else 0
        for end in ("min", "max")
    )
    if high_ns and low_ns > high_ns:
        raise InvalidInputError(f"cannot use {key}: min is greater than max")
    return WaitTimes(low_ns, high_ns)
