"""The environment of a task, and `${...}` in its strings."""

from __future__ import annotations

import msgspec
import pytest

from agent.tasks.environment import EnvInput, TaskEnv, build, host_env
from orchgit.model.job import JobOrigin
from orchgit.model.resources import AllocatedPort, AllocatedResources, AllocatedTask
from orchgit.model.task import Task
from tests.support.factories import make_allocation, make_group, make_job, make_node, make_task


def built(task: Task | None = None, **job: object) -> TaskEnv:
    task = task or make_task()
    group = make_group(tasks=[task], meta={"level": "group", "zone": "${node.datacenter}"})
    spec = make_job(id="shop", task_groups=[group], **job)
    resources = AllocatedResources(tasks={"web": AllocatedTask()})
    resources.tasks["web"].cpu.cpu_shares = 500
    resources.tasks["web"].cpu.reserved_cores = [2, 3]
    resources.tasks["web"].memory.memory_mb = 256
    resources.tasks["web"].memory.memory_max_mb = 512
    resources.shared.ports = [
        AllocatedPort("http", 20001, 8080, "10.0.0.1"),
        AllocatedPort("admin-ui", 20002, 0, "fd00::1"),
    ]
    alloc = make_allocation(spec, index=3, commit_id="c0ffee", allocated_resources=resources)
    alloc = msgspec.structs.replace(alloc, id="12345678-0000-4000-8000-000000000001")
    return build(
        EnvInput(
            node=make_node(attributes={"kernel.name": "linux"}, meta={"rack": "r1"}),
            region="global",
            job=spec,
            group=group,
            task=task,
            alloc=alloc,
            alloc_dir="/a",
            local_dir="/l",
            secrets_dir="/s",
            host_env={"PATH": "/bin", "NOMAD_TASK_NAME": "wrong"},
            template_env={"FROM_TEMPLATE": "t"},
        )
    )


def test_identity_directories_and_resources() -> None:
    env = built(name="Shop", parent_id="shop-parent").env
    expected = {
        "NOMAD_ALLOC_ID": "12345678-0000-4000-8000-000000000001",
        "NOMAD_SHORT_ALLOC_ID": "12345678",
        "NOMAD_ALLOC_NAME": "shop.web[3]",
        "NOMAD_ALLOC_INDEX": "3",
        "NOMAD_TASK_NAME": "web",
        "NOMAD_GROUP_NAME": "web",
        "NOMAD_JOB_ID": "shop",
        "NOMAD_JOB_NAME": "Shop",
        "NOMAD_JOB_PARENT_ID": "shop-parent",
        "NOMAD_DC": "dc1",
        "NOMAD_REGION": "global",
        "NOMAD_NAMESPACE": "default",
        "NOMAD_ALLOC_DIR": "/a",
        "NOMAD_TASK_DIR": "/l",
        "NOMAD_SECRETS_DIR": "/s",
        "NOMAD_CPU_LIMIT": "500",
        "NOMAD_CPU_CORES": "2-3",
        "NOMAD_MEMORY_LIMIT": "256",
        "NOMAD_MEMORY_MAX_LIMIT": "512",
        "PATH": "/bin",
        "FROM_TEMPLATE": "t",
    }
    assert {name: env.get(name) for name in expected} == expected


def test_ports_become_variables() -> None:
    env = built().env
    expected = {
        "NOMAD_PORT_http": "8080",
        "NOMAD_IP_http": "10.0.0.1",
        "NOMAD_ADDR_http": "10.0.0.1:20001",
        "NOMAD_HOST_PORT_http": "20001",
        "NOMAD_HOST_IP_http": "10.0.0.1",
        "NOMAD_HOST_ADDR_http": "10.0.0.1:20001",
        "NOMAD_ALLOC_PORT_http": "8080",
        "NOMAD_PORT_admin_ui": "20002",
        "NOMAD_ALLOC_PORT_admin-ui": "20002",
        "NOMAD_HOST_IP_admin-ui": "fd00::1",
        "NOMAD_ADDR_admin_ui": "[fd00::1]:20002",
    }
    assert {name: env.get(name) for name in expected} == expected
    assert "NOMAD_ALLOC_PORT_admin_ui" not in env
    assert "NOMAD_HOST_ADDR_admin_ui" not in env


def test_meta_of_task_over_group_over_job_in_both_cases() -> None:
    env = built(make_task(meta={"my.key": "task"}), meta={"level": "job", "job-only": "j"}).env
    assert env["NOMAD_META_level"] == env["NOMAD_META_LEVEL"] == "group"
    assert env["NOMAD_META_my_key"] == env["NOMAD_META_MY_KEY"] == "task"
    assert env["NOMAD_META_JOB_ONLY"] == "j"
    assert env["NOMAD_META_zone"] == "dc1"


def test_environment_names_the_commit_and_the_source() -> None:
    env = built(origin=JobOrigin(source="shop-repo", commit_id="older")).env
    assert (env["ORCHGIT_COMMIT"], env["ORCHGIT_SOURCE"]) == ("c0ffee", "shop-repo")


@pytest.mark.parametrize("order", [("A", "B", "C"), ("C", "B", "A")])
def test_values_of_env_name_each_other_in_any_order(order: tuple[str, ...]) -> None:
    values = {"A": "a", "B": "${A}b", "C": "${B}c"}
    env = built(make_task(env={name: values[name] for name in order})).env
    assert [env["A"], env["B"], env["C"]] == ["a", "ab", "abc"]


def test_chain_of_references_in_env_may_have_any_length() -> None:
    links = {f"V{place}": f"${{V{place + 1}}}" for place in range(3000)}
    env = built(make_task(env={**links, "V3000": "end"})).env
    assert {env[name] for name in links} == {"end"}


def test_value_of_env_that_names_itself_sees_the_one_outside() -> None:
    env = built(make_task(env={"PATH": "/own:${PATH}", "X": "${Y}", "Y": "${X}"})).env
    assert env["PATH"] == "/own:/bin"
    assert {env["X"], env["Y"]} == {"${X}"}


def test_env_block_is_interpolated() -> None:
    found = built(make_task(env={"URL": "http://${NOMAD_ADDR_http}/", "${meta.rack}": "k"}))
    assert found.env["URL"] == "http://10.0.0.1:20001/"
    assert found.env["${meta.rack}"] == "k"  # names stay as they are
    text = found.interpolate.text
    assert text("${node.datacenter}-${meta.rack}-${NOMAD_TASK_NAME}") == "dc1-r1-web"
    assert text('${ NOMAD_TASK_NAME } ${env["URL"]}') == '${ NOMAD_TASK_NAME } ${env["URL"]}'
    assert text("${HOME_OF_SHELL} $${X} $PATH") == "${HOME_OF_SHELL} $${X} $PATH"
    tree = {"args": ["${NOMAD_JOB_ID}", 5], "${meta.rack}": True}
    assert found.interpolate.tree(tree) == {"args": ["shop", 5], "r1": True}


def test_task_gets_what_the_allow_list_names() -> None:
    environ = {
        "PATH": "/bin",
        "LANG": "C",
        "LC_ALL": "C",
        "DATABASE_URL": "postgres://user:password@host/db",
        "MYSQL_PWD": "x",
        "STRIPE_KEY": "x",
        "NOMAD_TOKEN": "x",
    }
    plain = {"PATH": "/bin", "LANG": "C", "LC_ALL": "C"}
    assert host_env(environ) == plain
    assert host_env(environ, ("PATH", "STRIPE_KEY")) == {
        "PATH": "/bin",
        "STRIPE_KEY": "x",
    }
    assert host_env(environ, ()) == {}


def test_pattern_passes_on_no_secret_and_a_full_name_does() -> None:
    environ = {
        "PATH": "/bin",
        "EDITOR": "vi",
        "NOMAD_TOKEN": "x",
        "GITHUB_TOKEN": "x",
        "DB_PASSWORD": "x",
        "AWS_REGION": "x",
        "ORCHGIT_DATA": "x",
        "my_secret": "x",
    }
    assert host_env(environ, ("*",)) == {"PATH": "/bin", "EDITOR": "vi"}
    assert host_env(environ, ("AWS_REGION",)) == {"AWS_REGION": "x"}
