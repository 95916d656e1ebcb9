"""What templates read of Consul and Vault, from stubs of their HTTP APIs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agent.config import ConsulConfig
from agent.consul.template_reads import ConsulReads
from agent.http_json import HttpService
from agent.templates.cluster_reads import (
    ClusterReads,
    OutsideSource,
    OutsideValue,
    Reader,
    VaultAccess,
)
from agent.templates.functions import Known, TemplateSources, task_functions
from agent.templates.outside import Reading
from agent.templates.queries import Query, QueryKind
from agent.vault.template_reads import VaultReads
from agent.vault.tokens import VaultConfig
from orchgit.clock import Clock, FakeClock
from orchgit.errors import OrchgitError, RefusedError
from orchgit.go_templates.budget import StepBudget
from orchgit.go_templates.errors import TemplateError
from orchgit.go_templates.render import MAX_STEPS, render
from orchgit.model.base import NS_PER_S
from tests.support.consul_stub import ConsulStub
from tests.support.polling import until
from tests.support.vault_stub import VaultStub

NO_ACCESS = Reader("alloc", "t", "default", "t")
WEB = Reader("alloc", "t", "default", "t", lambda: VaultAccess("hvs.1", "team"))
KEY = Query(QueryKind.CONSUL_KEY, "web/port")


def consul_reads(stub: ConsulStub, token: str = "", use_token: bool = False) -> ConsulReads:
    headers = {"X-Consul-Token": token} if token else {}
    service = HttpService(url=stub.url, headers=headers, timeout_s=60)
    return ConsulReads(ConsulConfig(service=service), use_token)


def vault_reads(stub: VaultStub, clock: Clock | None = None) -> VaultReads:
    return VaultReads(VaultConfig(service=HttpService(url=stub.url, timeout_s=60)), clock)


def shown(text: str, source: OutsideSource, reader: Reader = WEB) -> tuple[str, set[str]]:
    """(text, what is missing) of a template that reads the source."""
    reading, budget = Reading(), StepBudget(MAX_STEPS)

    def ask(query: Query) -> tuple[Known, Any]:
        if query.kind not in source.kinds:
            return Known.ABSENT, None
        return Known.FOUND, asyncio.run(source.read(query, reader, None)).value

    sources = TemplateSources({}, lambda path: "", 0, ask, lambda text: text)
    functions = task_functions(sources, budget, reading)
    return render(text, functions=functions, budget=budget), reading.missing


@pytest.mark.parametrize(
    ("text", "expected", "missing"),
    [
        pytest.param('{{ key "/web/port" }}', "80", set(), id="key"),
        pytest.param('{{ key "none" }}', "", {"kv.block(none)"}, id="key-that-is-not-there"),
        pytest.param('{{ keyExists "web/port" }} {{ keyExists "none" }}', "true false", set(),
                     id="exists"),
        pytest.param('{{ keyOrDefault "none" "d" }} {{ keyOrDefault "web/port" "d" }}', "d 80",
                     set(), id="default"),
        pytest.param('{{ with keyExistsGet "web/port" }}{{ .Key }}={{ .Value }}{{ end }}',
                     "web/port=80", set(), id="get"),
        pytest.param('{{ range ls "web" }}{{ .Key }}={{ .Value }};{{ end }}', "host=a;port=80;",
                     set(), id="ls"),
        pytest.param('{{ range tree "web" }}{{ .Key }}={{ .Value }};{{ end }}',
                     "db/user=u;host=a;port=80;", set(), id="tree"),
        pytest.param('{{ range safeLs "none" }}{{ end }}', "", {"kv.list(none)"}, id="safe"),
        pytest.param('{{ range ls "none" }}{{ end }}', "", set(), id="ls-of-nothing"),
        pytest.param('{{ toJSON (tree "web" | explode) }}',
                     '{"db":{"user":"u"},"host":"a","port":"80"}', set(), id="explode"),
        pytest.param('{{ range $k, $v := byKey (tree "web/") }}{{ $k }}{{ range $n, $p := $v }}'
                     '.{{ $n }}={{ $p.Value }};{{ end }}{{ end }}',
                     "db.user=u;host.=a;port.=80;", set(), id="by-key"),
        pytest.param('{{ range $m, $s := service "web" | byMeta "team" }}'
                     "{{ $m }}{{ len $s }}{{ end }}",
                     "red1", set(), id="by-meta"),
        pytest.param('{{ range service "web" }}{{ .Address }}:{{ .Port }};{{ end }}',
                     "10.0.0.1:80;", set(), id="service"),
        pytest.param('{{ range service "web" "any" }}{{ .ID }} {{ .Status }};{{ end }}',
                     "w1 passing;w2 critical;w3 maintenance;", set(), id="service-of-any-state"),
        pytest.param('{{ range service "blue.web" "passing,critical" }}{{ .ID }};{{ end }}',
                     "w2;", set(), id="tag-and-states"),
        pytest.param('{{ range services }}{{ .Name }}{{ .Tags }};{{ end }}', "api[];web[blue];",
                     set(), id="services"),
        pytest.param("{{ datacenters }}", "[east west]", set(), id="datacenters"),
        pytest.param('{{ range nodes }}{{ .Node }}={{ .Address }}{{ .Meta.rack }};{{ end }}',
                     "host-1=10.9.9.1r1;host-2=10.9.9.2;", set(), id="nodes"),
        pytest.param('{{ with node "host-1" }}{{ .Node.Address }}{{ range .Services }} {{ .ID }}'
                     ":{{ .Port }}{{ .Tags }}{{ end }}{{ end }}",
                     "10.9.9.1 w1:80[] w2:81[a b]", set(), id="node"),
        pytest.param("{{ with node }}{{ .Node.Node }}{{ end }}", "host-1", set(), id="own-node"),
        pytest.param('{{ with node "none" }}{{ if .Node }}there{{ end }}.{{ end }}', ".", set(),
                     id="no-such-node"),
        pytest.param('{{ range connect "web" }}{{ .Address }}:{{ .Port }};{{ end }}',
                     "10.0.0.1:80;", set(), id="connect"),
        pytest.param("{{ range caRoots }}{{ .RootCertPEM }}{{ .Active }}{{ end }}",
                     "ROOT PEMtrue", set(), id="roots"),
        pytest.param('{{ with caLeaf "web" }}{{ .CertPEM }}{{ .PrivateKeyPEM }}{{ end }}',
                     "LEAF PEMLEAF KEY", set(), id="leaf"),
        pytest.param("{{ range peerings }}{{ .Name }}{{ .State }}{{ .Meta.team }}{{ end }}",
                     "westACTIVEred", set(), id="peerings"),
        pytest.param('{{ range exportedServices "default" }}{{ .Service }}{{ .Consumers.Peers }}'
                     "{{ .Consumers.Partitions }}{{ end }}",
                     "web[west][p]", set(), id="exported"),
    ],
)  # fmt: skip
def test_template_reads_consul(text: str, expected: str, missing: set[str]) -> None:
    with ConsulStub() as stub:
        stub.keys = {"web/": "", "web/port": "80", "web/host": "a", "web/db/user": "u"}
        stub.instances = [
            ("w1", "10.0.0.1", [], ["passing", "passing"]),
            ("w2", "", ["blue"], ["critical", "passing"]),
            ("w3", "", [], ["maintenance"]),
        ]
        assert shown(text, consul_reads(stub)) == (expected, missing)


def test_consul_is_read_with_the_agents_token_only_where_that_is_allowed() -> None:
    with ConsulStub("s3") as stub:
        stub.keys = {"web/port": "80"}
        assert shown('{{ key "web/port" }}', consul_reads(stub, "s3", use_token=True))[0] == "80"
        with pytest.raises(RefusedError, match=r"kv\.get\(web/port\): .* 403 \(Permission denied"):
            asyncio.run(consul_reads(stub, "s3").read(KEY, WEB, None))


def test_consul_datacenter_of_a_key_is_asked() -> None:
    with ConsulStub() as stub:
        stub.keys = {"web/port": "80"}
        assert shown('{{ keyExists "web/port@west" }}', consul_reads(stub))[0] == "true"
        assert stub.queries == ["dc=west"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('{{ with secret "kv1/db" }}{{ .Data.password }}{{ end }}', "pw", id="v1"),
        pytest.param('{{ with secret "secret/db" }}{{ .Data.data.password }}{{ end }}', "pw2",
                     id="v2"),
        pytest.param('{{ with secret "secret/data/db" }}{{ .Data.data.password }}{{ end }}', "pw2",
                     id="v2-with-its-whole-path"),
        pytest.param('{{ secrets "secret/" }} {{ secrets "secret/none" }}', "[db x/] []",
                     id="list"),
    ],
)  # fmt: skip
def test_template_reads_vault_with_the_tokens_rights(text: str, expected: str) -> None:
    with VaultStub() as stub:
        stub.secrets = {
            "kv1/db": {"data": {"password": "pw"}, "lease_duration": 2764800},
            "secret/data/db": {"data": {"data": {"password": "pw2"}, "metadata": {"version": 1}}},
            "secret/metadata/": {"data": {"keys": ["x/", "db"]}},
        }
        assert shown(text, vault_reads(stub)) == (expected, set())
        assert set(stub.readers) == {("hvs.1", "team")}


@pytest.mark.parametrize(
    ("reader", "revoked", "path", "why"),
    [
        pytest.param(WEB, set(), "kv1/none", "no secret exists at kv1/none", id="none"),
        pytest.param(WEB, set(), "secret/gone", "no secret exists at secret/gone", id="deleted"),
        pytest.param(WEB, {"hvs.1"}, "kv1/db", "Code: 403. Errors: permission denied", id="denied"),
        pytest.param(NO_ACCESS, set(), "kv1/db", "no token of Vault; add a vault", id="no-token"),
    ],
)
def test_secret_that_cannot_be_read_is_named_with_the_reason(
    reader: Reader, revoked: set[str], path: str, why: str
) -> None:
    with VaultStub() as stub:
        deleted = {"data": {"data": None, "metadata": {"version": 1}}}
        stub.secrets = {"kv1/db": {"data": {"password": "pw"}}, "secret/data/gone": deleted}
        stub.revoked = revoked
        query = Query(QueryKind.VAULT_SECRET, path)
        with pytest.raises(RefusedError) as caught:
            asyncio.run(vault_reads(stub).read(query, reader, None))
        assert str(caught.value).startswith(f"vault.read({path}): ")
        assert why in str(caught.value)


def test_template_writes_to_vault_and_shows_the_answer() -> None:
    text = (
        '{{ with secret "transit/encrypt/k" "plaintext=YQ==" " x = y " }}'
        "{{ .Data.ciphertext }}{{ end }}"
        '{{ with secret "secret/new" "a=1" }}{{ .Data.version }}{{ end }}'
        '{{ with secret "kv1/new" "a=1" }}{{ len .Data }}{{ end }}'
    )
    with VaultStub() as stub:
        stub.writable = {
            "transit/encrypt/k": (200, {"data": {"ciphertext": "vault:1"}}),
            "secret/data/new": (200, {"data": {"version": 3}}),
            "kv1/new": (204, None),
        }
        assert shown(text, vault_reads(stub)) == ("vault:130", set())
        assert stub.written == [
            ("transit/encrypt/k", {"plaintext": "YQ==", "x": "y"}),
            ("secret/data/new", {"data": {"a": "1"}}),
            ("kv1/new", {"a": "1"}),
        ]


def test_certificate_of_vault_is_issued_again_before_it_ends() -> None:
    text = (
        '{{ with pkiCert "pki/issue/web" "common_name=web" }}'
        "{{ .Cert }} {{ .Key }} {{ .CA }} {{ .CAChain }}{{ end }}"
    )
    data = {"certificate": "CERT", "private_key": "KEY", "issuing_ca": "CA", "ca_chain": ["CA"]}
    with VaultStub() as stub:
        stub.writable = {"pki/issue/web": (200, {"data": {**data, "expiration": 1_000}})}
        assert shown(text, vault_reads(stub)) == ("CERT KEY CA [CA]", set())
        query = Query(QueryKind.VAULT_PKI, "pki/issue/web", data=("common_name=web",))
        source = vault_reads(stub, FakeClock(900 * NS_PER_S))
        first = asyncio.run(source.read(query, WEB, None))
        assert first.next_s == pytest.approx(85)
        asyncio.run(source.read(query, WEB, first))
        assert stub.written == [("pki/issue/web", {"common_name": "web"})] * 3
        stub.writable = {"pki/issue/web": (400, {"errors": ["unknown role: web"]})}
        with pytest.raises(RefusedError, match=r"vault\.pki\(pki/issue/web\).*unknown role"):
            asyncio.run(source.read(query, WEB, first))


def test_data_for_vault_that_is_no_pair_fails_the_template() -> None:
    with VaultStub() as stub, pytest.raises(TemplateError, match='not k=v pair "ttl"'):
        shown('{{ secret "pki/issue/web" "ttl" }}', vault_reads(stub))


def test_partitions_of_a_consul_without_them_are_refused() -> None:
    with ConsulStub() as stub, pytest.raises(RefusedError, match="only Consul Enterprise"):
        shown("{{ partitions }}", consul_reads(stub))


def test_lease_is_renewed_and_the_secret_read_anew_when_it_ends() -> None:
    async def work(source: VaultReads, stub: VaultStub) -> None:
        query = Query(QueryKind.VAULT_SECRET, "db/creds")
        first = await source.read(query, WEB, None)
        assert (first.value["Data"], first.next_s) == ({"user": "u1"}, 30)
        stub.secrets["db/creds"]["data"] = {"user": "u2"}
        assert (await source.read(query, WEB, first)).value == first.value
        stub.lease_left_s = 10
        assert (await source.read(query, WEB, first)).value["Data"] == {"user": "u2"}

    with VaultStub() as stub:
        lease = {"lease_id": "db/creds/1", "lease_duration": 60, "renewable": True}
        stub.secrets = {"db/creds": {"data": {"user": "u1"}, **lease}}
        stub.lease_left_s = 60
        asyncio.run(work(vault_reads(stub), stub))


def test_errors_of_a_template_show_no_secret() -> None:
    with VaultStub() as stub:
        stub.secrets = {"kv1/db": {"data": {"password": "hidden", "more": {"pin": ["1234"]}}}}
        reading = Reading()
        found = asyncio.run(
            vault_reads(stub).read(Query(QueryKind.VAULT_SECRET, "kv1/db"), WEB, None)
        )
        sources = TemplateSources(
            {}, lambda path: "", 0, lambda query: (Known.FOUND, found.value), lambda text: text
        )
        budget = StepBudget(MAX_STEPS)
        render('{{ secret "kv1/db" }}', functions=task_functions(sources, budget, reading),
               budget=budget)  # fmt: skip
        assert reading.redacted("at hidden, 1234") == "at [redacted], [redacted]"


class Source:
    """Gives `value`, or fails for `why`."""

    kinds = frozenset([QueryKind.CONSUL_KEY])

    def __init__(self, is_per_task: bool = False) -> None:
        self.is_per_task = is_per_task
        self.value, self.why, self.count = "1", "", 0

    async def read(self, query: Query, reader: Reader, last: OutsideValue | None) -> OutsideValue:
        self.count += 1
        if self.why:
            raise RefusedError(self.why)
        return OutsideValue(self.value, 5.0)


def follow(source: Source, work: Callable[[ClusterReads, FakeClock], Any]) -> None:
    async def whole() -> None:
        clock = FakeClock()
        reads = ClusterReads(clock=clock)
        reads.add_source(source)
        try:
            await work(reads, clock)
        finally:
            await reads.close()

    asyncio.run(whole())


def test_value_is_read_again_after_its_time_and_a_change_is_told() -> None:
    source = Source()

    async def work(reads: ClusterReads, clock: FakeClock) -> None:
        web, other = reads.subscribe(WEB), reads.subscribe(Reader("b", "t", "ns", "b/t"))
        assert web.ask(KEY) == other.ask(KEY) == (Known.UNKNOWN, None)
        await asyncio.wait_for(web.wait(), 60)
        assert (web.take_changed(), web.ask(KEY)) == ({KEY}, (Known.FOUND, "1"))
        assert source.count == 1
        source.value = "2"
        await clock.advance(5.0)
        await asyncio.wait_for(web.wait(), 60)
        assert (web.ask(KEY), source.count) == ((Known.FOUND, "2"), 2)
        web.close()
        other.close()
        assert reads.count == 0
        await clock.advance(60.0)
        assert source.count == 2

    follow(source, work)


def test_tasks_share_nothing_that_each_reads_with_its_own_rights() -> None:
    source = Source(is_per_task=True)

    async def work(reads: ClusterReads, clock: FakeClock) -> None:
        for reader in (WEB, Reader("b", "t", "default", "t")):
            reads.subscribe(reader).ask(KEY)
        await until(lambda: source.count == 2)
        assert reads.count == 2

    follow(source, work)


def test_failure_is_told_once_and_the_last_value_stays() -> None:
    source = Source()

    async def work(reads: ClusterReads, clock: FakeClock) -> None:
        web = reads.subscribe(WEB)
        web.ask(KEY)
        await asyncio.wait_for(web.wait(), 60)
        web.take_changed()
        source.why = "kv.get(web/port): 500"
        await clock.advance(5.0)
        await asyncio.wait_for(web.wait(), 60)
        assert (web.problems(), web.take_changed()) == (("kv.get(web/port): 500",), set())
        assert web.ask(KEY) == (Known.FOUND, "1")
        source.why = ""
        await clock.advance(60.0)
        await until(lambda: web.problems() == ())

    follow(source, work)


def test_consul_that_does_not_answer_as_consul_is_named() -> None:
    with ConsulStub() as stub:
        stub.broken = True
        for kind in (QueryKind.CONSUL_KEY, QueryKind.CONSUL_KEYS, QueryKind.CONSUL_SERVICE):
            with pytest.raises(OrchgitError, match="cannot read the answer"):
                asyncio.run(consul_reads(stub).read(Query(kind, "web"), WEB, None))


def test_vault_that_does_not_answer_as_vault_is_named() -> None:
    with VaultStub() as stub:
        stub.secrets = {"kv1/db": {"data": {"password": "pw"}, "lease_duration": "long"}}
        with pytest.raises(RefusedError, match=r"vault.read\(kv1/db\): cannot read the answer"):
            asyncio.run(vault_reads(stub).read(Query(QueryKind.VAULT_SECRET, "kv1/db"), WEB, None))
