"""Several files and directories of configuration: what is read, joined, refused and warned of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from orchgit.cli.commands.agent import agent
from orchgit.cli.commands.agent_flags import FLAGS, SWITCHES
from orchgit.cli.main import cli
from orchgit.configuration.agent_view import agent_view
from orchgit.configuration.documented import CONFIGURATION
from orchgit.configuration.file import read_config
from orchgit.configuration.keys import BlockValues, ConfigKey, Kind, walk
from orchgit.configuration.loading import load
from orchgit.configuration.merging import merge
from orchgit.configuration.nomad_checks import NO_MTLS
from orchgit.configuration.validation import validate
from orchgit.errors import InvalidInputError
from orchgit.model.operator import AutopilotConfig
from orchgit.services.acl.settings import AclSettings
from tests.scenarios.run_agent_config import main

GOLDEN = Path(__file__).parents[2] / "golden/api/agent-config"


def test_recorded_configurations_get_the_recorded_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PWD", raising=False)  # it is taken away, and comes back after the test
    assert main(str(GOLDEN)) == 0


def written(directory: Path, **texts: str) -> list[str]:
    paths = []
    for name, text in texts.items():
        path = directory / f"{name}.hcl"
        path.write_text(text)
        paths.append(str(path))
    return paths


def test_unknown_keys_of_all_files_are_told_at_once_with_the_nearest_name(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        a='regoin = "eu"\nserver {\n enabled = true\n bootstrap_expct = 1\n}\n',
        b="client {\n server_join {\n retry_joim = []\n }\n}\nretry_max = 1\nnode_class = 1\n",
    )
    with pytest.raises(InvalidInputError) as caught:
        read_config(*paths)
    lines = str(caught.value).replace(str(tmp_path), "").splitlines()
    assert lines == [
        "cannot use the configuration:",
        '/a.hcl:1:1: there is no key "regoin"; did you mean "region"?',
        '/a.hcl:4:2: there is no key "bootstrap_expct" in server; did you mean "bootstrap_expect"?',
        '/b.hcl:3:2: there is no key "retry_joim" in client.server_join; '
        'did you mean "retry_join"?',
        '/b.hcl:6:1: there is no key "retry_max"',
        '/b.hcl:7:1: there is no key "node_class"; it belongs into client',
    ]


def test_wrong_values_are_told_at_once_with_their_places(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        a='enable_debug = "maybe"\nports { http = "x" }\nserver { retry_join = "a" }\n'
        'acl { token_ttl = "soon" }\nclient = 1\nname = ["x"]\n',
    )
    with pytest.raises(InvalidInputError) as caught:
        read_config(*paths)
    assert [line.partition(".hcl:")[2] for line in str(caught.value).splitlines()[1:]] == [
        '1:16: cannot use enable_debug: it must be true or false, not "maybe"',
        '2:16: cannot use ports.http: it must be a whole number, not "x"',
        '3:23: cannot use server.retry_join: it must be a list of texts, as ["a"], not "a"',
        '4:19: cannot use acl.token_ttl: it must be a duration, as "30s", not "soon"',
        "5:10: cannot use client: it must be a block, as { ... }, not 1",
        '6:8: cannot use name: it must be a text, as "a", not a list',
    ]


def test_directory_is_read_in_order_with_hidden_files_and_without_those_of_editors(
    tmp_path: Path,
) -> None:
    for name, text in {
        "b.hcl": 'region = "b"',
        "a.json": '{"region": "a", "datacenter": "a"}',
        ".c.hcl": 'name = "hidden"\nregion = "hidden"',
        "c.hcl~": "nonsense",
        "#d.hcl": "nonsense",
        "e.txt": "nonsense",
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "sub.hcl").mkdir()
    file = read_config(tmp_path).file
    assert (file.region, file.datacenter, file.name) == ("b", "a", "hidden")


def test_keys_without_effect_are_named_in_one_warning(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        a='server { encrypt = "x" num_schedulers = 2 }\nclient { reserved { cores = "1" } }\n'
        'consul { address = "x" nonsense = 1 }\nlimits { http_max_conns = 3 }\n',
    )
    found = read_config(*paths)
    in_consul, in_limits, without = found.warnings[-3:]
    assert '"nonsense" in consul' in in_consul
    assert "http_max_conns_per_client" in in_limits
    assert without == (
        "these keys have no effect here: server.encrypt, client.reserved.cores "
        "(docs/configuration.md says why)"
    )


def test_validation_names_what_an_agent_could_not_use(tmp_path: Path) -> None:
    [path] = written(
        tmp_path,
        a='data_dir = "/x"\nserver { enabled = true }\nlimits { rpc_max_conns_per_client = -5 }\n',
    )
    result = validate([path])
    assert result.valid
    assert result.errors[-1] == (
        f"WARNING: an agent does not start with this configuration: {path}:3:37: "
        "cannot use limits.rpc_max_conns_per_client: it must not be negative, not -5"
    )


def test_validation_names_a_plugin_block_of_no_driver(tmp_path: Path) -> None:
    [path] = written(
        tmp_path,
        a='data_dir = "/x"\nclient { enabled = true }\nplugin "dockr" { }\nplugin "nvidia" { }\n',
    )
    warning = f'{path}:3:8: plugin "dockr" is no driver or device of this machine'
    assert f'WARNING: {warning}; did you mean "docker"?' in validate([path]).errors
    assert "nvidia" not in str(validate([path]).errors)


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"\xff\xfe", "it is no text in UTF-8"), (b"#" * (5 << 20), "it has more than 4194304 bytes")],
)
def test_file_that_cannot_be_read_is_told_in_one_sentence(
    tmp_path: Path, content: bytes, why: str
) -> None:
    path = tmp_path / "a.hcl"
    path.write_bytes(content)
    assert [each.lines for each in load([str(path)]).failed] == [(f"cannot read {path}: {why}",)]


def test_files_of_certificates_make_mutual_tls_of_rpc(tmp_path: Path) -> None:
    files = "".join(f'{name} = "{__file__}"\n' for name in ("ca_file", "cert_file", "key_file"))
    for tls, is_mutual in (("", True), ("rpc = true", True), ("rpc = false", False)):
        text = f"tls {{\nhttp = true\n{files}{tls}\n}}\n"
        result = validate(
            written(tmp_path, a='data_dir = "/x"\nclient { enabled = true }\n' + text)
        )
        assert (NO_MTLS not in result.errors) is is_mutual, tls


def test_keys_of_a_keyring_that_nomad_has_are_not_told_to_be_unknown(tmp_path: Path) -> None:
    [path] = written(
        tmp_path,
        a='data_dir = "/x"\nserver { enabled = true }\n'
        'keyring "awskms" {\n  active = true\n  kms_key_id = "x"\n}\n',
    )
    assert read_config(path).warnings == [
        "these keys have no effect here: keyring (docs/configuration.md says why)"
    ]


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        a='acl { replication_token = "s3cret" }\nconsul { token = "s3cret" auth = "s3cret" }\n'
        'vault { token = "s3cret" }\ntelemetry { circonus_api_token = "s3cret" }\n'
        'server { encrypt = "s3cret" }\n'
        'gitops { webhook_secrets = { a = "s3cret" } }\n',
    )
    assert "s3cret" not in str(agent_view(load(paths)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("fd00::1", "[fd00::1]:4646"),
        ("[fd00::1]:80", "[fd00::1]:80"),
        ("10.0.0.1", "10.0.0.1:4646"),
        ("host:80", "host:80"),
    ],
)
def test_advertised_address_is_shown_with_its_port(tmp_path: Path, text: str, shown: str) -> None:
    path = tmp_path / "a.hcl"
    path.write_text(f'advertise {{ http = "{text}" }}\n')
    assert agent_view(load([str(path)]))["AdvertiseAddrs"]["HTTP"] == shown


VALUES = st.builds(
    lambda values: BlockValues(values),
    st.fixed_dictionaries(
        {},
        optional={
            "region": st.sampled_from(["", "a", "b"]),
            "enable_debug": st.booleans(),
            "log_rotate_bytes": st.integers(0, 2),
            "http_api_response_headers": st.dictionaries(
                st.sampled_from("xy"), st.sampled_from("12")
            ),
            "http_allowed_hosts": st.lists(st.sampled_from("ab"), max_size=2),
        },
    ),
)


@given(VALUES, VALUES, VALUES)
def test_joining_is_associative_and_nothing_joined_changes_nothing(
    one: BlockValues, two: BlockValues, three: BlockValues
) -> None:
    nothing = BlockValues()
    assert merge(CONFIGURATION, nothing, one) == one
    assert merge(CONFIGURATION, one, nothing) == one
    left = merge(CONFIGURATION, merge(CONFIGURATION, one, two), three)
    right = merge(CONFIGURATION, one, merge(CONFIGURATION, two, three))
    assert left == right
    if one.values.get("enable_debug"):
        assert left.values["enable_debug"] is True


def test_command_exits_with_the_verdict_and_tells_mistakes_on_standard_error(
    tmp_path: Path,
) -> None:
    [valid] = written(tmp_path, valid='data_dir = "/x"\nclient { enabled = true }\n')
    [wrong] = written(tmp_path, wrong="servr { }\n")
    found = CliRunner().invoke(cli, ["config", "validate", valid])
    assert (found.exit_code, found.stdout) == (0, "Configuration is valid!\n")
    found = CliRunner().invoke(cli, ["config", "validate", valid, wrong])
    assert (found.exit_code, found.stdout) == (1, "")
    assert "unexpected keys servr" in found.stderr
    assert 'wrong.hcl:1:1: there is no key "servr"; did you mean "server"?' in found.stderr
    found = CliRunner().invoke(cli, ["config", "validate"])
    assert (found.exit_code, found.stderr) == (
        1,
        "Must specify at least one config file or directory\n",
    )


def test_settings_of_access_control_are_read(tmp_path: Path) -> None:
    [path] = written(
        tmp_path,
        a='acl {\n enabled = true\n token_min_expiration_ttl = "1s"\n'
        ' token_max_expiration_ttl = "2h"\n token_ttl = "1h"\n}\n',
    )
    found = read_config(path)
    assert found.server["acl"] == AclSettings(
        enabled=True,
        token_min_expiration_ttl_ns=10**9,
        token_max_expiration_ttl_ns=7200 * 10**9,
    )
    assert "acl.token_ttl" in found.warnings[-1]
    assert read_config().server["acl"] == AclSettings()


def test_flags_win_over_files_and_are_read_by_the_same_table(tmp_path: Path) -> None:
    [path] = written(tmp_path, a='client { meta { a = "1" b = "1" } network_interface = "x" }\n')
    flags = {
        "client.meta": ("b=2", "c=x=y"),
        "client.network_interface": "lo",
        "acl.enabled": True,
        "consul.token": "s3cret",
    }
    found = read_config(path, flags=flags)
    assert found.agent["meta"] == {"a": "1", "b": "2", "c": "x=y"}
    assert found.agent["network_interface"] == "lo"
    assert found.server["acl"].enabled
    assert found.agent["consul"].service.headers == {"X-Consul-Token": "s3cret"}
    assert "s3cret" not in str(found.warnings)
    assert "s3cret" not in repr(found.agent["consul"])
    with pytest.raises(InvalidInputError, match=r'client\.meta: "b" is not KEY=VALUE'):
        read_config(flags={"client.meta": ("b",)})
    with pytest.raises(InvalidInputError, match=r"flag for server\.server_join\.retry_interval"):
        read_config(flags={"server.server_join.retry_interval": "soon"})


def test_every_recorded_flag_of_an_agent_is_known() -> None:
    recorded = json.loads((GOLDEN.parent / "cli/commands.json").read_text())
    known = {name.lstrip("-") for each in agent.params for name in each.opts}
    other = {"dev-connect", "dev-consul", "dev-vault", "client-intro-token"}
    assert set(recorded["commands"]["agent"]["flags"]) - other <= known
    paths = dict(walk(CONFIGURATION))
    for flag, path in FLAGS.items():
        key = paths[path]
        assert isinstance(key, ConfigKey)
        assert (key.kind in (Kind.SWITCH, Kind.GIVEN_SWITCH)) == (flag in SWITCHES)


def test_options_of_clients_choose_drivers_and_others_are_warned_of(tmp_path: Path) -> None:
    [path] = written(
        tmp_path,
        a='client {\n disable_remote_exec = true\n options {\n "driver.denylist" = "docker, exec"\n'
        ' "driver.allowlist" = "raw_exec"\n "user.denylist" = "root"\n }\n}\n',
    )
    found = read_config(path)
    assert found.agent["driver_denylist"] == ("docker", "exec")
    assert found.agent["driver_allowlist"] == ("raw_exec",)
    assert found.agent["disable_remote_exec"]
    assert 'here: client.options "user.denylist" (' in found.warnings[-1]


def test_headers_autopilot_and_eligibility_are_read(tmp_path: Path) -> None:
    [path] = written(
        tmp_path,
        a='http_api_response_headers { "X-A" = "1" }\nclient { default_ineligible = true }\n'
        'autopilot { last_contact_threshold = "1s" enable_custom_upgrades = true }\n',
    )
    found = read_config(path)
    for settings in (found.server, found.agent):
        assert settings["http_response_headers"] == {"X-A": "1"}
    assert found.agent["default_ineligible"]
    assert found.server["autopilot_config"] == AutopilotConfig(last_contact_threshold_ns=10**9)
    assert "here: autopilot.enable_custom_upgrades (" in found.warnings[-1]
    assert read_config().server["autopilot_config"] is None


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ('"X A" = "1"', "other characters"),
        ('"X-A" = "a\\r\\nX-B: 1"', "printable"),
        ('"Content-Length" = "1"', "by the server itself"),
    ],
)
def test_header_that_cannot_be_sent_is_refused(tmp_path: Path, header: str, why: str) -> None:
    [path] = written(tmp_path, a=f"http_api_response_headers {{ {header} }}\n")
    with pytest.raises(InvalidInputError, match=f"http_api_response_headers.*{why}"):
        read_config(path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('enable_debug = "maybe"', 'decodeBool: Unknown value for boolean: "maybe"'),
        ('ports { http = "x" }', 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("client { servers = 1 }", "At 1:20: unknown slice type: *ast.LiteralType"),
        ("server = 1", "At 1:10: root.server: not an object type for struct (*ast.LiteralType)"),
        ("region = [1]", "At 1:10: root.region: unknown type for string *ast.ListType"),
    ],
)
def test_value_of_a_wrong_kind_is_told_in_nomads_words(
    tmp_path: Path, text: str, sentence: str
) -> None:
    [path] = written(tmp_path, a=text)
    [failed] = load([path]).failed
    assert failed.nomad == f"Error loading {path}: failed to decode HCL file {path}: {sentence}"


def test_lists_are_appended_but_those_of_joining_and_telemetry_replaced(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        a='client { servers = ["a:1"] }\nserver { server_join { retry_join = ["a"] } }\n'
        'telemetry { prefix_filter = ["+a"] }\n',
        b='client { servers = ["b:1"] }\nserver { server_join { retry_join = ["b"] } }\n'
        'telemetry { prefix_filter = ["-b"] }\n',
    )
    found = read_config(*paths)
    assert found.file.client.servers == ["a:1", "b:1"]
    assert found.server["join"].retry_join == ("b",)
    assert found.server["telemetry"].filter.rules == ("-b",)
