"""The files of a compose project. Known answers: the examples of the Compose Specification and of Docker's
manual ("Merge and override", "Extend", "Include", "Interpolation"), whose results they state."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from preop.deployment.environment import parse_env
from preop.deployment.forms.compose_merge import by_name, lay_over
from preop.deployment.read import ReadOptions, read_targets
from preop.deployment.types import Deployment
from preop.deployment.yaml_nodes import Map, load, to_python
from preop.errors import InputError, PreopError

from .reading import read_compose, said

IMAGE = "image: vllm/vllm-openai:v0.32.0"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def read(path: Path, **environment: str) -> list[Deployment]:
    return read_targets([str(path)], None, ReadOptions(environment=environment))


def merged(base: str, over: str) -> object:
    documents = [load(text, "c.yml")[0] for text in (base, over)]
    assert isinstance(documents[0], Map) and isinstance(documents[1], Map)
    return to_python(lay_over(documents[0], documents[1]))


@pytest.mark.parametrize(
    ("base", "over", "result"),
    [
        # mappings
        (
            "{services: {foo: {key1: value1, key2: value2}}}",
            "{services: {foo: {key2: VALUE, key3: value3}}}",
            {"services": {"foo": {"key1": "value1", "key2": "VALUE", "key3": "value3"}}},
        ),
        # sequences
        (
            "{services: {foo: {DNS: [1.1.1.1]}}}",
            "{services: {foo: {DNS: [8.8.8.8]}}}",
            {"services": {"foo": {"DNS": ["1.1.1.1", "8.8.8.8"]}}},
        ),
        # shell commands
        (
            '{services: {foo: {command: ["echo", "foo"]}}}',
            '{services: {foo: {command: ["echo", "bar"]}}}',
            {"services": {"foo": {"command": ["echo", "bar"]}}},
        ),
        (
            '{services: {foo: {healthcheck: {test: ["CMD", "a"], retries: 3}}}}',
            '{services: {foo: {healthcheck: {test: ["CMD", "b"]}}}}',
            {"services": {"foo": {"healthcheck": {"test": ["CMD", "b"], "retries": 3}}}},
        ),
        # reset
        (
            '{services: {app: {image: myapp, ports: ["8080:80"], environment: {FOO: BAR}}}}',
            "{services: {app: {image: myapp, ports: !reset [], environment: {FOO: !reset null}}}}",
            {"services": {"app": {"image": "myapp", "environment": {}}}},
        ),
        # replace
        (
            '{services: {app: {image: myapp, ports: ["8080:80"]}}}',
            '{services: {app: {ports: !override ["8443:443"]}}}',
            {"services": {"app": {"image": "myapp", "ports": ["8443:443"]}}},
        ),
        # "For environment, labels, volumes and devices, Compose merges entries with locally defined values
        # taking precedence" (in either form)
        (
            "{services: {app: {environment: [FOO=original, BAR=original]}}}",
            "{services: {app: {environment: {BAR: local, BAZ: local}}}}",
            {"services": {"app": {"environment": {"FOO": "original", "BAR": "local", "BAZ": "local"}}}},
        ),
        # one or more
        (
            "{services: {app: {env_file: a.env}}}",
            "{services: {app: {env_file: [b.env]}}}",
            {"services": {"app": {"env_file": ["a.env", "b.env"]}}},
        ),
    ],
)
def test_merge_rules_of_the_specification(base: str, over: str, result: object) -> None:
    assert merged(base, over) == result


NAMES = st.sampled_from(["A", "B", "C"])


@given(st.dictionaries(NAMES, NAMES), st.dictionaries(NAMES, NAMES), st.booleans(), st.booleans())
def test_environments_merge_as_mappings_do_in_every_form(
    base: dict[str, str], over: dict[str, str], base_is_list: bool, over_is_list: bool
) -> None:
    def text(pairs: dict[str, str], as_list: bool) -> str:
        inner = [f"{k}={v}" if as_list else f"{k}: {v}" for k, v in pairs.items()]
        joined = ", ".join(inner)
        environment = f"[{joined}]" if as_list else f"{{{joined}}}"
        return f"{{services: {{a: {{environment: {environment}}}}}}}"

    found = merged(text(base, base_is_list), text(over, over_is_list))
    assert isinstance(found, dict)
    node = load(str(found["services"]["a"]["environment"]).replace("'", '"'), "x")
    assert (to_python(by_name(node[0])) if node else {}) == {**base, **over}


@pytest.mark.parametrize(
    ("base", "over"),
    [
        ("compose.yml", "compose.override.yml"),
        ("compose.yaml", "compose.override.yaml"),
        ("docker-compose.yml", "docker-compose.override.yml"),
        ("docker-compose.yaml", "docker-compose.override.yml"),
    ],
)
def test_the_override_beside_a_default_name_is_laid_over(tmp_path: Path, base: str, over: str) -> None:
    write(
        tmp_path,
        {
            base: f"services: {{a: {{{IMAGE}, command: --model m, environment: [A=1], gpus: all}}}}",
            over: "services: {a: {command: --model m --max-num-seqs 8, environment: {B: 2}},"
            f" b: {{{IMAGE}, command: --model n}}}}",
        },
    )
    found = read(tmp_path / base)
    assert [each.name for each in found] == ["a", "b"]
    assert found[0].fact("max_num_seqs").value == 8
    assert found[0].fact("max_num_seqs").source.startswith(str(tmp_path / over))
    assert found[0].fact("accelerator").value == "nvidia"
    assert said(found[0]).count("hidden") == 0
    # given together, they are one project all the same
    both = read_targets([str(tmp_path / base), str(tmp_path / over)], None, ReadOptions())
    assert [each.name for each in both] == ["a", "b"]


def test_another_name_has_no_override(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "prod.yml": f"services: {{a: {{{IMAGE}, command: --model m}}}}",
            "compose.override.yml": "services: {a: {command: --model n}}",
        },
    )
    (found,) = read(tmp_path / "prod.yml")
    assert found.fact("model").value == "m"


@pytest.mark.parametrize("separator", [os.pathsep, ";"])
def test_compose_file_names_the_files_in_their_order(tmp_path: Path, separator: str) -> None:
    write(
        tmp_path,
        {
            ".env": f"COMPOSE_FILE=base.yml{separator}gpu.yml\nCOMPOSE_PATH_SEPARATOR={separator}\n",
            "base.yml": f"services: {{a: {{{IMAGE}, command: --model m}}}}",
            "gpu.yml": "services: {a: {gpus: all, command: --model n}}",
            "alone.yml": f"services: {{a: {{{IMAGE}, command: --model o}}}}",
        },
    )
    for name in ("base.yml", "gpu.yml"):
        (found,) = read(tmp_path / name)
        assert (found.fact("model").value, found.fact("accelerator").value) == ("n", "nvidia")
    (alone,) = read(tmp_path / "alone.yml")
    assert alone.fact("model").value == "o"
    (tmp_path / "gpu.yml").unlink()
    with pytest.raises(InputError, match=r"gpu\.yml: no such file"):
        read(tmp_path / "base.yml")


def test_a_fragment_says_what_is_missing(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "gpu.yml": "services: {a: {gpus: all}}",
            "args.yml": "services: {a: {command: vllm serve m}}",
        },
    )
    with pytest.raises(InputError, match=r"neither image nor build.*COMPOSE_FILE"):
        read(tmp_path / "gpu.yml")
    (found,) = read(tmp_path / "args.yml")
    assert "neither image nor build" in said(found)


def test_extends_takes_paths_from_the_folder_of_its_file(tmp_path: Path) -> None:
    """Docker's manual: common-services.yml with `webapp`, of which `web` takes the properties."""
    write(
        tmp_path,
        {
            "common/base.env": "CUDA_VISIBLE_DEVICES=3\n",
            "common/conf/c.yaml": "max-num-seqs: 12\n",
            "common/common-services.yml": f"services: {{webapp: {{{IMAGE}, env_file: base.env, gpus: all,"
            " volumes: ['./conf:/etc/vllm', 'a:/data'], command: --model far}}",
            "compose.yml": "services: {web: {extends: {file: common/common-services.yml, service: webapp},"
            " command: --model near --config /etc/vllm/c.yaml}}",
        },
    )
    (found,) = read(tmp_path / "compose.yml")
    assert found.name == "web"
    assert found.fact("model").value == "near"
    assert found.fact("max_num_seqs").value == 12
    assert found.fact("gpu_ids").value == ["3"]


def test_a_circle_is_named(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "compose.yml": "services: {a: {extends: b}, b: {extends: {file: o.yml, service: c}}}",
            "o.yml": "services: {c: {extends: {file: compose.yml, service: a}}}",
            "i.yml": "include: [j.yml]\nservices: {}",
            "j.yml": "include: [i.yml]\nservices: {}",
        },
    )
    with pytest.raises(InputError, match=r"extends itself: a -> b -> c -> a"):
        read(tmp_path / "compose.yml")
    with pytest.raises(InputError, match=r"includes itself: i\.yml -> j\.yml -> i\.yml"):
        read(tmp_path / "i.yml")


def test_include_has_its_own_folder_and_variables(tmp_path: Path) -> None:
    """The Specification: the included file's own `.env`, which the local project's environment overrides."""
    write(
        tmp_path,
        {
            ".env": "SEQS=9\n",
            "compose.yaml": "include: [../commons/compose.yaml, {path: ../other/c.yml,"
            " project_directory: .., env_file: ../another/.env}]\nservices: {web: {image: nginx}}",
            "../commons/.env": "M=common\nSEQS=1\n",
            "../commons/one.env": "CUDA_VISIBLE_DEVICES=2\n",
            "../commons/compose.yaml": f"services: {{one: {{{IMAGE}, gpus: all, env_file: one.env,"
            " command: '--model ${M} --max-num-seqs ${SEQS}'}}",
            "../another/.env": "M=another\n",
            "../two.env": "CUDA_VISIBLE_DEVICES=5\n",
            "../other/c.yml": f"services: {{two: {{{IMAGE}, gpus: all, env_file: two.env,"
            " command: '--model ${M}'}}",
        },
    )
    found = read(tmp_path / "compose.yaml")
    facts = ("model", "max_num_seqs", "gpu_ids")
    assert [(each.name, *(each.fact(name).value for name in facts[:1])) for each in found] == [
        ("one", "common"),
        ("two", "another"),
    ]
    assert found[0].fact("max_num_seqs").value == 9
    assert [each.fact("gpu_ids").value for each in found] == [["2"], ["5"]]
    # one project: its services run side by side
    assert {each.source.partition(": ")[0] for each in found} == {str(tmp_path / "compose.yaml")}


def test_include_of_several_files_merges_them(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "compose.yaml": "include: [{path: [base.yml, over.yml]}]\n",
            "base.yml": f"services: {{a: {{{IMAGE}, command: --model m}}}}",
            "over.yml": "services: {a: {command: --model n}}",
        },
    )
    (found,) = read(tmp_path / "compose.yaml")
    assert found.fact("model").value == "n"


def test_a_name_that_is_included_and_there_is_refused_as_compose_does(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "compose.yaml": f"include: [b.yml]\nservices: {{a: {{{IMAGE}}}}}",
            "b.yml": f"services: {{a: {{{IMAGE}, command: --model n}}}}",
        },
    )
    with pytest.raises(InputError, match=r"service a is included and is in .*compose\.yaml:2"):
        read(tmp_path / "compose.yaml")


def test_an_included_file_that_is_not_here_is_said(tmp_path: Path) -> None:
    (found,) = read_compose(
        tmp_path, f"include: [gone.yml]\nservices: {{a: {{{IMAGE}, command: --model m}}}}"
    )
    assert "gone.yml is included and is not here" in said(found)


@pytest.mark.parametrize(
    ("text", "variables", "result"),
    [
        ("${V:-default}", {}, "default"),
        ("${V:-default}", {"V": ""}, "default"),
        ("${V-default}", {"V": ""}, ""),
        ("${V-default}", {}, "default"),
        ("${V:+set}", {"V": "x"}, "set"),
        ("${V:+set}", {"V": ""}, ""),
        ("${V+set}", {"V": ""}, "set"),
        ("${V:?err}", {"V": "x"}, "x"),
        ("${V:?err}", {}, None),
        ("${V:?err}", {"V": ""}, None),
        ("${V?err}", {"V": ""}, ""),
        ("${V:-${FOO}}", {"FOO": "f"}, "f"),
        ("${V:-${FOO:-default}}", {}, "default"),
        ("$$V", {"V": "x"}, "$V"),
    ],
)
def test_interpolation(tmp_path: Path, text: str, variables: dict[str, str], result: str | None) -> None:
    (found,) = read_compose(
        tmp_path,
        f"services: {{a: {{{IMAGE}, command: ['--model', 'x{text}']}}}}",
        environment=variables,
    )
    fact = found.fact("model")
    assert fact.value == (f"x{result}" if result is not None else None)
    assert result is not None or "has to be set: err" in (fact.note or "")


def test_dotenv_as_compose_reads_it(tmp_path: Path) -> None:
    """Docker's manual, "Interpolation": quotes, comments, `\\$` and variables that stand before."""
    lines = [
        "VAR=VAL # comment",
        'DOUBLE="a \\"b\\" # no comment"',
        "SINGLE='$VAR'",
        "EXPANDED=${VAR}-x",
        'ESCAPED="\\$VAR"',
        "export LATER=${NOT_SET}",
    ]
    write(tmp_path, {".env": "\n".join(lines)})
    (found,) = read_compose(tmp_path, f"services: {{a: {{{IMAGE}, command: '--model ${{EXPANDED}}'}}}}")
    assert found.fact("model").value == "VAL-x"
    tokens = parse_env("\n".join(lines), ".env", quotes=True, variables={})
    assert {name: token.visible for name, token in tokens.items()} == {
        "VAR": "VAL",
        "DOUBLE": 'a "b" # no comment',
        "SINGLE": "$VAR",
        "EXPANDED": "VAL-x",
        "ESCAPED": "$VAR",
        "LATER": None,
    }


def test_a_raw_environment_file_is_taken_as_it_stands(tmp_path: Path) -> None:
    write(tmp_path, {"raw.env": "VLLM_ALLOW_LONG_MAX_MODEL_LEN='1'\n"})
    text = f"services: {{a: {{{IMAGE}, command: --model m, env_file: [{{path: raw.env%s}}]}}}}"
    (plain,) = read_compose(tmp_path, text % "")
    assert plain.fact("allow_long_max_model_len").value is True
    (raw,) = read_compose(tmp_path, text % ", format: raw")
    assert raw.fact("allow_long_max_model_len").value is not True


def test_a_config_is_a_file_of_the_container(tmp_path: Path) -> None:
    write(tmp_path, {"c.yaml": "max-num-seqs: 5\n"})
    configs = "configs: {c: {file: ./c.yaml}, d: {content: 'max-num-seqs: ${N}'}}\n"
    service = f"services: {{a: {{{IMAGE}, command: --model m --config %s, configs: [%s]}}}}\n"
    for path, granted, expected in (
        ("/c", "c", 5),
        ("/d", "d", 7),
        ("/etc/x.yaml", "{source: d, target: /etc/x.yaml}", 7),
        ("/e", "c", None),
    ):
        (found,) = read_compose(tmp_path, configs + service % (path, granted), environment={"N": "7"})
        assert found.fact("max_num_seqs").value == expected


def test_the_last_volume_of_a_target_counts(tmp_path: Path) -> None:
    write(tmp_path, {"conf/c.yaml": "max-num-seqs: 5\n"})
    text = f"services: {{a: {{{IMAGE}, command: --model m --config /e/c.yaml, volumes: [%s]}}}}"
    (found,) = read_compose(tmp_path, text % "'named:/e', './conf:/e'")
    assert found.fact("max_num_seqs").value == 5
    (found,) = read_compose(tmp_path, text % "'./conf:/e', 'named:/e'")
    assert not found.fact("max_num_seqs").is_known


def test_profiles_replicas_and_dependents(tmp_path: Path) -> None:
    text = (
        f"services:\n  a: {{{IMAGE}, command: --model m, depends_on: [b]}}\n"
        f"  b: {{{IMAGE}, command: --model n, profiles: [big]}}\n"
        f"  c: {{{IMAGE}, command: --model o, deploy: {{mode: global}}}}\n"
        "develop: {watch: []}\nx-anything: {a: 1}\n"
    )
    found = read_compose(tmp_path, text)
    assert [each.name for each in found] == ["a", "c"], "what depends on it activates no profile"
    found = read_compose(tmp_path, text, environment={"COMPOSE_PROFILES": "small, big"})
    assert [each.name for each in found] == ["a", "b", "c"]


def test_the_files_of_a_project_are_judged_once_in_a_folder(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "app/compose.yml": "include: [../inc/compose.yml]\n"
            "services: {web: {extends: {file: ../common.yml, service: base}, command: --model web}}",
            "app/compose.override.yml": "services: {web: {gpus: all}}",
            "inc/compose.yml": f"services: {{chat: {{{IMAGE}, command: --model chat}}}}",
            "common.yml": f"services: {{base: {{{IMAGE}, command: --model base}}}}",
        },
    )
    found = read(tmp_path)
    assert [(each.name, each.fact("model").value) for each in found] == [("web", "web"), ("chat", "chat")]


FILES = st.dictionaries(
    st.sampled_from(["compose.yml", "compose.override.yml", "b.yml", ".env", "c.env"]),
    st.lists(
        st.sampled_from(
            [
                *("services:", "  a:", f"    {IMAGE}", "    command: --model ${M:-m}", "include: [b.yml]"),
                *(
                    "    extends: {file: b.yml, service: a}",
                    "    environment: !reset null",
                    "A=${A}",
                    "{{ x }}",
                ),
                *(
                    "    env_file: c.env",
                    "    volumes: !override ['./a:/b']",
                    "COMPOSE_FILE=b.yml:compose.yml",
                ),
                *("configs: {c: {content: x}}", "    configs: [c]", "include: compose.yml", "A='", 'B="$$\\'),
            ]
        ),
        max_size=6,
    ).map("\n".join),
)


@given(FILES)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_files_of_a_project_give_deployments_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, str]
) -> None:
    folder = write(tmp_path_factory.mktemp("p"), files)
    for target in (folder, folder / "compose.yml"):
        try:
            read_targets([str(target)], None, ReadOptions(), unread=[])
        except PreopError as error:
            assert str(error) and "\n" not in str(error)
