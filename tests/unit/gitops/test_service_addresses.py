"""Where services are reached, as a push shows it at its end."""

from __future__ import annotations

from orchgit.gitops.rollouts.service_addresses import (
    MAX_SERVICES,
    addresses_of,
    service_lines,
)


def registration(
    name: str, port: int, job: str = "shop", host: str = "10.0.0.1"
) -> dict[str, object]:
    return {
        "Namespace": "default",
        "JobID": job,
        "ServiceName": name,
        "Address": host,
        "Port": port,
    }


def test_each_service_has_one_line_with_its_different_addresses() -> None:
    found = addresses_of(
        [
            registration("web", 8080),
            registration("web", 8081),
            registration("web", 8080),
            registration("shop", 9000, host="fd00::1"),
            registration("nowhere", 0, host=""),
        ]
    )
    assert list(service_lines(found)) == [
        "  shop: [fd00::1]:9000",
        "  web (shop): 10.0.0.1:8080, 10.0.0.1:8081",
    ]


def test_addresses_and_services_beyond_the_limits_are_counted() -> None:
    [many] = addresses_of(registration("web", 8000 + number) for number in range(50))
    [line] = service_lines([many])
    assert line.endswith("10.0.0.1:8004, and 45 more")
    lines = list(service_lines([many] * MAX_SERVICES))
    assert len(lines) == MAX_SERVICES + 1
    assert "lists all services" in lines[-1]
