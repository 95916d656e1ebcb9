"""Settings of single parts: searches, introductions of nodes, where metrics are sent."""

from __future__ import annotations

from orchgit.configuration.schema import FileConfig, SearchSection, TelemetrySection
from orchgit.durations import parse_setting_ns
from orchgit.errors import InvalidInputError
from orchgit.metrics.push import PushSettings
from orchgit.services.search import SearchLimits
from orchgit.services.secrets.node_identities import Enforcement, IntroductionSettings


def search_limits(section: SearchSection) -> SearchLimits:
    """Raises InvalidInputError."""
    if section.limit_results < 1 or section.min_term_length < 1:
        raise InvalidInputError(
            "cannot use server.search: limit_results and min_term_length are at least 1"
        )
    return SearchLimits(section.fuzzy_enabled, section.limit_results, section.min_term_length)


def introduction_settings(file: FileConfig) -> IntroductionSettings:
    """Returns which new nodes servers take. Raises InvalidInputError."""
    section, place = file.server.client_introduction, "server.client_introduction"
    if section.enforcement not in tuple(Enforcement):
        raise InvalidInputError(
            f'cannot use {place}: enforcement is "none", "warn" or "strict", not '
            f'"{section.enforcement}"'
        )
    default_ns, max_ns = (
        parse_setting_ns(f"{place}.{name}", getattr(section, name))
        for name in ("default_identity_ttl", "max_identity_ttl")
    )
    if not 0 < default_ns <= max_ns:
        raise InvalidInputError(
            f"cannot use {place}: default_identity_ttl is at most max_identity_ttl"
        )
    return IntroductionSettings(file.region, section.enforcement, default_ns, max_ns)


def push_settings(section: TelemetrySection) -> PushSettings:
    """Returns where metrics are sent; statsite understands what statsd does. Raises
    InvalidInputError."""
    interval_ns = parse_setting_ns("telemetry.collection_interval", section.collection_interval)
    return PushSettings(
        section.statsd_address or section.statsite_address,
        section.datadog_address,
        tuple(section.datadog_tags),
        interval_ns / 1e9,
    )
