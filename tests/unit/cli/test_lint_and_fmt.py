"""`orchgit lint` and `orchgit fmt` on files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from orchgit.cli.job_files.many_files import MANY
from orchgit.cli.main import cli

GOOD = 'job "good" {\n  group "g" {\n    task "t" {\n      driver = "docker"\n    }\n  }\n}\n'
UGLY = GOOD.replace('driver = "docker"', 'driver="docker"').replace("  group", "group")


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=stdin)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_clean_files_are_clean(folder: Path) -> None:
    (folder / "good.nomad.hcl").write_text(GOOD)
    done = run("lint", ".")
    assert (done.exit_code, done.output) == (0, "1 file, 0 problems\n")


def test_every_kind_of_mistake_has_its_place(folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "a" / "syntax.hcl").write_text(GOOD.replace("driver", "drvier"))
    (folder / "one.hcl").write_text(GOOD)
    (folder / "two.hcl").write_text("\n" + GOOD)
    (folder / "rule.hcl").write_text(
        GOOD.replace('"good"', '"rule"').replace(
            '"docker"', '"docker"\n      shutdown_delay = "-1s"'
        )
    )
    (folder / "bytes.hcl").write_bytes(GOOD.encode() + b"# \xff\n")
    done = run("lint", "-json", ".", "missing.hcl")
    assert done.exit_code == 1
    found = {
        (each["File"], each["Line"], each["Column"], each["Rule"])
        for each in json.loads(done.stdout)["Findings"]
    }
    assert found == {
        ("a/syntax.hcl", 4, 7, "syntax"),
        ("two.hcl", 2, 1, "duplicate-job"),
        ("rule.hcl", 5, 7, "rule"),
        ("bytes.hcl", 8, 3, "syntax"),
        ("missing.hcl", 1, 1, "unreadable"),
    }


def test_text_shows_the_line_and_a_caret(folder: Path) -> None:
    (folder / "bad.hcl").write_text(GOOD.replace("driver", "drvier"))
    done = run("lint", "bad.hcl")
    assert "bad.hcl:4:7: " in done.stderr
    assert 'Did you mean "driver"?' in done.stderr
    assert "    4 |       drvier =" in done.stderr
    assert "^^^^^^" in done.stderr
    assert done.stdout == "1 file, 1 problem\n"


def test_warnings_alone_are_no_failure(folder: Path) -> None:
    (folder / "web.hcl").write_text(
        GOOD.replace(
            "task", 'service {\n      name = "s"\n      provider = "nomad"\n    }\n    task', 1
        )
    )
    done = run("lint", "web.hcl")
    assert done.exit_code == 0
    assert "warning: " in done.stderr
    assert done.stdout == "1 file, 0 problems, 1 warning\n"


def test_lint_sarif_names_rule_level_and_place(folder: Path) -> None:
    (folder / "a b.hcl").write_text(GOOD.replace("driver", "drvier"))
    log = json.loads(run("lint", "-sarif", ".").stdout)
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    assert log["$schema"].endswith("sarif-2.1.0.json")
    driver = log["runs"][0]["tool"]["driver"]
    (result,) = log["runs"][0]["results"]
    assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "syntax"
    assert result["level"] == "error"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a%20b.hcl"
    region = place["region"]
    assert (region["startLine"], region["startColumn"], region["endColumn"]) == (4, 7, 13)


def test_variables_and_files_beside_the_job(folder: Path) -> None:
    (folder / "jobs").mkdir()
    (folder / "jobs" / "image.txt").write_text("nginx:1")
    job = GOOD.replace('"docker"', 'var.driver\n      user = file("image.txt")')
    (folder / "jobs" / "web.hcl").write_text('variable "driver" {\n  type = string\n}\n' + job)
    (folder / "prod.vars").write_text('driver = "docker"\n')
    assert "Unset variable" in run("lint", "jobs").stderr
    assert run("lint", "-var", "driver=docker", "jobs").exit_code == 0
    assert run("lint", "-var-file", "prod.vars", "jobs").exit_code == 0


def test_fmt_rewrites_names_and_settles(folder: Path) -> None:
    path = folder / "ugly.hcl"
    path.write_text(UGLY)
    path.chmod(0o640)
    (folder / "good.hcl").write_text(GOOD)
    done = run("fmt", ".")
    assert (done.exit_code, done.output) == (0, "ugly.hcl\n")
    assert path.read_text() == GOOD
    assert path.stat().st_mode & 0o777 == 0o640
    assert run("fmt", ".").output == ""
    assert sorted(each.name for each in folder.iterdir()) == ["good.hcl", "ugly.hcl"]


def test_fmt_check_and_diff(folder: Path) -> None:
    path = folder / "ugly.hcl"
    path.write_text(UGLY)
    done = run("fmt", "-check", "ugly.hcl")
    assert (done.exit_code, done.output) == (1, "ugly.hcl\n")
    done = run("fmt", "-check", "-diff", "ugly.hcl")
    assert '-      driver="docker"\n+      driver = "docker"\n' in done.output
    assert path.read_text() == UGLY
    path.write_text(GOOD)
    assert run("fmt", "-check", "ugly.hcl").exit_code == 0


def test_fmt_goes_deeper_only_when_asked(folder: Path) -> None:
    (folder / "deep" / ".git").mkdir(parents=True)
    for path in (folder / "deep" / "x.nomad", folder / "deep" / ".git" / "y.hcl"):
        path.write_text(UGLY)
    assert run("fmt").output == ""
    assert run("fmt", "-recursive").output == "deep/x.nomad\n"
    assert (folder / "deep" / ".git" / "y.hcl").read_text() == UGLY


def test_fmt_leaves_a_file_with_mistakes_alone(folder: Path) -> None:
    path = folder / "bad.hcl"
    path.write_text("job {\n  a=\n}\n")
    done = run("fmt", "bad.hcl")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("bad.hcl:2:5: ")
    assert path.read_text() == "job {\n  a=\n}\n"


def test_fmt_of_standard_input(folder: Path) -> None:
    assert run("fmt", "-", stdin=UGLY).output == GOOD
    assert run("fmt", "-check", "-", stdin=UGLY).exit_code == 1
    assert run("fmt", "-", stdin="a=1\r\nbc=2\r\n").stdout_bytes == b"a  = 1\r\nbc = 2\r\n"
    assert run("fmt", "-", stdin=b"\xff").exit_code == 2
    assert sorted(folder.iterdir()) == []


def test_many_files_give_the_same_in_the_same_order(folder: Path) -> None:
    """From `MANY` on they are read by several processes."""
    for number in range(MANY + 20):
        text = GOOD.replace('"good"', f'"j{number % (MANY + 10)}"')
        (folder / f"{number:05}.hcl").write_text(text)
    (folder / "00003.hcl").write_text(GOOD.replace("driver", "drvier"))
    (folder / "00007.hcl").write_text(UGLY)
    done = run("lint", "-json", ".")
    found = json.loads(done.stdout)["Findings"]
    places = [(each["File"], each["Rule"]) for each in found]
    assert places[0] == ("00003.hcl", "syntax")
    assert [rule for _, rule in places[1:]] == ["duplicate-job"] * 8
    assert [path for path, _ in places] == sorted(path for path, _ in places)
    done = run("fmt", "-check", ".")
    assert (done.exit_code, done.output) == (1, "00007.hcl\n")
    gone = run("fmt", "-check", ".", "gone.hcl")
    assert "cannot read gone.hcl" in str(gone.exception)


def test_files_of_a_directory_that_hold_no_job_are_passed_over(folder: Path) -> None:
    (folder / "good.hcl").write_text(GOOD)
    (folder / "prod.vars.hcl").write_text('image = "x"\n')
    (folder / "orchgit.hcl").write_text('job "good" {}\n')
    job = {"ID": "api", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "docker"}]}]}
    (folder / "api.nomad.json").write_text(json.dumps({"Job": job}))
    done = run("lint", ".")
    assert (done.exit_code, done.output) == (0, "4 files, 0 problems\n")
    assert run("lint", "prod.vars.hcl").exit_code == 1
    (folder / "bad.nomad.json").write_text('{"Job": {"ID": "x"}}')
    done = run("lint", ".")
    assert done.exit_code == 1
    assert "bad.nomad.json:1:1" in done.output


SERVICE = """\
job "s" {{
  group "g" {{
    shutdown_delay = "1s"
    network {{
      port "p" {{}}
    }}
    service {{
      name = "s"
      port = "p"
      {service}
    }}
    task "t" {{
      driver = "{driver}"
      {vault}
      config {{
        {config}
      }}
    }}
  }}
}}
"""


@pytest.mark.parametrize(
    ("changes", "rule", "words"),
    [
        ({"driver": "dokcer"}, "driver", "did you mean 'docker'?"),
        ({"config": 'comand = "true"'}, "driver-config", 'did you mean "command"'),
        ({"config": 'command = "true"\n args = 7'}, "driver-config", "$.args"),
        (
            {"service": 'provider = "consul"\n connect {\n sidecar_service {}\n }'},
            "unplaceable",
            "has no service mesh",
        ),
        ({"vault": "vault {}"}, "unplaceable", 'name = "vault_default"'),
    ],
)
def test_what_nodes_cannot_do_is_found(
    changes: dict[str, str], rule: str, words: str, folder: Path
) -> None:
    text = {
        "driver": "raw_exec",
        "config": 'command = "true"',
        "service": "",
        "vault": "",
        **changes,
    }
    (folder / "s.hcl").write_text(SERVICE.format(**text))
    (found,) = json.loads(run("lint", "-json", "s.hcl").stdout)["Findings"]
    assert found["Rule"] == rule
    assert words in found["Message"]


def test_references_in_a_driver_config_are_left_to_the_node(folder: Path) -> None:
    config = 'command = "${NOMAD_META_x}"\n args = ["${NOMAD_PORT_p}"]'
    text = SERVICE.format(driver="raw_exec", service="", vault="", config=config)
    (folder / "s.hcl").write_text(text)
    assert run("lint", "s.hcl").output == "1 file, 0 problems\n"


def test_own_examples_have_no_findings(folder: Path) -> None:
    examples = Path(__file__).parents[3] / "examples" / "jobs"
    assert "0 problems\n" in run("lint", str(examples)).output
    assert run("job", "init", "new.hcl").exit_code == 0
    assert run("lint", "new.hcl").output == "1 file, 0 problems\n"
