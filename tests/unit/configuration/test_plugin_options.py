"""Options of drivers in a configuration file: taken in Nomad's form, refused with their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchgit.configuration.file import read_config
from orchgit.configuration.validation import validate
from orchgit.errors import InvalidInputError

GIVEN = """
plugin "docker" {
  config {
    allow_caps = ["all"]
    volumes {
      enabled = true
    }
    gc {
      image_delay = "1h"
      dangling_containers { enabled = false }
    }
  }
}
plugin "of-somebody" { config { anything = 1 } }
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "agent.hcl"
    path.write_text(text)
    return path


def test_nested_options_reach_the_driver(tmp_path: Path) -> None:
    drivers = read_config(written(tmp_path, GIVEN)).agent["drivers"]
    assert drivers["docker"] == {
        "allow_caps": ["all"],
        "volumes": {"enabled": True},
        "gc": {"image_delay": "1h", "dangling_containers": {"enabled": False}},
    }
    assert drivers["of-somebody"] == {"anything": 1}


def test_plugins_have_the_names_that_they_have_as_programs_of_nomad(tmp_path: Path) -> None:
    text = """
plugin "nomad-driver-podman" {
  config {
    recover_stopped = true
    volumes { enabled = false }
  }
}
plugin "nomad-device-nvidia" { config { fingerprint_period = "10s" } }
"""
    drivers = read_config(written(tmp_path, text)).agent["drivers"]
    assert drivers == {
        "podman": {"recover_stopped": True, "volumes": {"enabled": False}},
        "nvidia": {"fingerprint_period": "10s"},
    }
    wrong = text.replace("recover_stopped", "recover_stoped")
    with pytest.raises(InvalidInputError, match=r'did you mean "recover_stopped"'):
        read_config(written(tmp_path, wrong))


@pytest.mark.parametrize(
    ("options", "place", "message"),
    [
        ("volume_enabled = true", "3:3", r'key "volume_enabled"'),
        (
            "volumes {\n enable = true\n}",
            "4:2",
            r'key "volumes.enable" \(did you mean "volumes.enabled"\?\)',
        ),
        ('allow_privileged = "perhaps"', "3:3", r"Expected `?bool"),
        ('gc { dangling_containers { period = ["x"] } }', "3:30", "Expected `?str"),
    ],
)
def test_option_that_a_driver_does_not_have_is_refused_at_its_place(
    tmp_path: Path, options: str, place: str, message: str
) -> None:
    path = written(tmp_path, f'plugin "docker" {{\n config {{\n  {options}\n }}\n}}\n')
    with pytest.raises(InvalidInputError, match=rf'{path}:{place}: plugin "docker": {message}'):
        read_config(path)
    path.write_text(path.read_text() + 'data_dir = "/tmp/x"\nclient {\n enabled = true\n}\n')
    told = "\n".join(validate([str(path)]).errors)
    assert "does not start with this configuration" in told


def test_chroot_env_of_the_client_is_that_of_its_drivers(tmp_path: Path) -> None:
    text = 'client {\n chroot_env {\n "/bin" = "/bin"\n }\n}\n'
    drivers = read_config(written(tmp_path, text)).agent["drivers"]
    assert drivers["exec"]["chroot_env"] == drivers["java"]["chroot_env"] == {"/bin": "/bin"}
