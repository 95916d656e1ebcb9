"""Warnings about templates that wait for Consul or Vault."""

from __future__ import annotations

import msgspec
import pytest

from agent.templates.outside import Reading, outside_functions
from jobspec.rules.template_reads import CONSUL_FUNCTIONS, VAULT_FUNCTIONS, template_warnings
from jobspec.validate import validate_job
from orchgit.model.constraint import Constraint
from orchgit.model.job import Job
from orchgit.model.service import Service
from orchgit.model.task import Template
from tests.support.factories import make_job


def _job(text: str, vault: dict[str, object] | None = None, left: str = "") -> Job:
    template = Template(embedded_tmpl=text, dest_path="local/x", left_delim=left)
    job = make_job()
    group = job.task_groups[0]
    task = msgspec.structs.replace(group.tasks[0], name="t", templates=[template], vault=vault)
    group = msgspec.structs.replace(group, tasks=[task], services=[])
    return msgspec.structs.replace(job, task_groups=[group], constraints=[])


def test_table_names_every_function_that_consul_or_vault_answers() -> None:
    functions = outside_functions(lambda *_asked: None, Reading())
    assert set(functions) == CONSUL_FUNCTIONS | VAULT_FUNCTIONS


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{{ with secret "x" }}{{ .Data }}{{ end }}', ["Vault by secret,"]),
        ('{{ range secrets "x" }}{{ end }}{{ pkiCert "a" }}', ["Vault by pkiCert, secrets,"]),
        ('{{ key "secret" }}{{- ls "b" -}}', ["Consul by key, ls,"]),
        ('{{ $key := "service" }}{{ .service.node }} key {{/* ls */}} {{ `tree` }}', []),
        ('{{ nomadVar "a" }}{{ range nomadService "web" }}{{ end }}', []),
        ('{{ "never closed \\" secret }}', []),
    ],
)
def test_template_that_waits_for_consul_or_vault_is_warned_of(text: str, named: list[str]) -> None:
    warnings = list(template_warnings(_job(text)))
    assert [each.partition("reads ")[2][: len(one)] for each, one in zip(
        warnings, named, strict=True)] == named  # fmt: skip
    assert set(warnings) <= set(validate_job(_job(text)).warnings)


def test_own_delimiters_of_a_template_are_heeded() -> None:
    assert len(list(template_warnings(_job('[[ key "a" }}', left="[[")))) == 1
    assert list(template_warnings(_job('{{ key "a" }}', left="[["))) == []


def test_job_that_asks_for_consul_or_vault_has_no_warning() -> None:
    assert list(template_warnings(_job('{{ secret "a" }}', vault={"Role": "web"}))) == []
    job = _job('{{ key "a" }}')
    named = Constraint("${attr.consul.version}", "", "is_set")
    assert list(template_warnings(msgspec.structs.replace(job, constraints=[named]))) == []
    group = msgspec.structs.replace(job.task_groups[0], services=[Service(provider="consul")])
    assert list(template_warnings(msgspec.structs.replace(job, task_groups=[group]))) == []


def test_strings_without_an_end_take_linear_time() -> None:
    for text in ('{{ "' + '\\"' * 300_000, "{{ " + "/*" * 300_000, "{{" * 300_000):
        assert list(template_warnings(_job(text))) == []
