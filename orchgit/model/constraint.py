"""Constraints, affinities and spreads: where work may and should go."""

from __future__ import annotations

from orchgit.model.base import Model


class Constraint(Model):
    l_target: str = ""
    r_target: str = ""
    operand: str = "="


class Affinity(Model):
    l_target: str = ""
    r_target: str = ""
    operand: str = "="
    weight: int = 50


class SpreadTarget(Model):
    value: str = ""
    percent: int = 0


class Spread(Model):
    attribute: str = ""
    weight: int = 50
    spread_target: list[SpreadTarget] | None = None
