"""What is installed is what was written: wheel and source archive, built and used in a clean environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

import peerveil

ROOT = Path(__file__).parents[1]


def build(kind: str, out: Path) -> Path:
    """With the build backend that the project names; nothing is downloaded."""
    code = f"import sys; from hatchling.build import build_{kind} as build; print(build(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(out)], cwd=ROOT, capture_output=True, text=True, check=True)
    return out / done.stdout.strip().splitlines()[-1]


def test_the_wheel_works_from_an_empty_folder(tmp_path: Path) -> None:
    wheel = build("wheel", tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    assert "peerveil/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(part in name for name in names for part in ("tests/", "benchmarks/", ".pyc"))
    packages = {name.split("/")[1] for name in names if name.startswith("peerveil/") and name.count("/") > 1}
    assert packages >= {"release", "timing", "calibration", "ledger", "audit", "data", "study", "cli"}
    # the installed copy comes first; everything that it needs is already here
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    code = "import peerveil, sys; from peerveil.cli import main; print(peerveil.__file__); main(['--version'])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    where, version = done.stdout.strip().splitlines()
    assert where.startswith(str(tmp_path / "site"))
    assert version == f"peerveil {peerveil.__version__}"


def test_the_source_archive_holds_what_a_reader_needs(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "src/peerveil/__init__.py"} <= names
    assert not any(name.startswith((".venv", "out/")) for name in names)


def test_the_device_client_is_a_wheel_of_its_own_without_dependencies(tmp_path: Path) -> None:
    """Built from the file that peerveil uses, and run without any other package, on the vectors of every client."""
    code = "import sys; from hatchling.build import build_wheel as build; print(build(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT / "clients/python", capture_output=True, text=True, check=True)
    wheel = tmp_path / done.stdout.strip().splitlines()[-1]
    with zipfile.ZipFile(wheel) as archive:
        source = (ROOT / "src/peerveil/truth/client.py").read_bytes()
        assert archive.read("peerveil_client/__init__.py") == source
        assert "Requires-Dist" not in archive.read(f"{wheel.name.rsplit('-', 3)[0]}.dist-info/METADATA").decode()
    replay = """
import json, sys
sys.path.insert(0, sys.argv[1])
import peerveil_client
count = 0
vectors = json.load(open(sys.argv[2], encoding="utf-8"))
for group in [*vectors["labels"], *vectors["subsets"]]:
    for case in group["cases"]:
        left = bytearray.fromhex(case["bytes"])
        def word(width):
            taken = int.from_bytes(left[: width // 8], "little")
            del left[: width // 8]
            return taken
        line = peerveil_client.Client(group["terms"], bits=word).randomize("task 7", case["answer"])
        assert line == case["line"], (line, case)
        count += 1
print(count)
"""
    alone = [sys.executable, "-I", "-S", "-c", replay, str(wheel), str(ROOT / "clients/vectors.json")]
    assert int(subprocess.run(alone, capture_output=True, text=True, check=True).stdout) >= 20


def test_the_javascript_client_is_a_package_of_the_same_version() -> None:
    """Its behavior is tested in a browser (tests/web/collect/test_module.py), and by Node.js where there is one."""
    package = json.loads((ROOT / "clients/js/package.json").read_text(encoding="utf-8"))
    assert package["version"] == peerveil.__version__
    assert not {"dependencies", "peerDependencies"} & set(package)
    assert (ROOT / "clients/js" / package["scripts"]["prepack"].split()[1]).is_file()
    if node := shutil.which("node"):
        subprocess.run([node, "--test", "test.js"], cwd=ROOT / "clients/js", check=True, capture_output=True)


def test_the_citation_names_this_version() -> None:
    assert f"version: {peerveil.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_workflows_run_what_is_here_on_the_pythons_that_are_claimed() -> None:
    """The structure that the service expects, commands that exist, and no version that is claimed without being tested."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    tested: set[str] = set()
    for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
        flow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert {"name", "permissions", "jobs"} <= set(flow), path
        assert flow.get("on", flow.get(True)), path  # YAML reads `on` as true
        for job in flow["jobs"].values():
            assert set(job.get("needs", "").split()) <= set(flow["jobs"]), path
            assert job["runs-on"] == "ubuntu-24.04", path
            for step in job["steps"]:
                assert ("run" in step) != ("uses" in step), step
                assert re.fullmatch(r"[\w-]+/[\w.-]+@[\w./-]+", step.get("uses", "a/b@v1")), step
                made = re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))
                assert set(made) <= set(targets), step
        if path.name == "test.yml":
            tested |= set(flow["jobs"]["test"]["strategy"]["matrix"]["python"])
        if path.name == "release.yml":
            assert flow["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    claimed = {text.rsplit(" ", 1)[1] for text in project["classifiers"] if re.search(r":: 3\.\d+$", text)}
    assert claimed == tested
    for form in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        content = yaml.safe_load(form.read_text(encoding="utf-8"))
        assert form.name == "config.yml" or {"name", "description", "body"} <= set(content), form


def test_the_conda_recipe_asks_for_what_the_package_asks_for() -> None:
    recipe = yaml.safe_load((ROOT / "packaging/conda/recipe.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    other_names = {"matplotlib-base": "matplotlib", "python-tzdata": "tzdata"}
    asked = [line.split() for line in recipe["requirements"]["run"] if not line.startswith("python ")]
    assert {f"{other_names.get(name, name)}{bound}" for name, bound in asked} == set(project["dependencies"])
    assert recipe["context"]["version"] == peerveil.__version__


@pytest.mark.slow
def test_installed_with_its_dependencies_in_a_clean_environment(tmp_path: Path) -> None:
    """From the wheel and the lock alone, as a user would."""
    wheel = build("wheel", tmp_path)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    uv = Path(sys.executable).with_name("uv")
    for arguments in (["--require-hashes", "-r", str(ROOT / "requirements" / "use.lock")], ["--no-deps", str(wheel)]):
        subprocess.run([str(uv), "pip", "install", "--quiet", "--python", str(python), *arguments], check=True)
    command = [str(tmp_path / "venv" / "bin" / "peerveil"), "data", "synthetic", str(tmp_path / "conference")]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    assert (tmp_path / "conference" / "reviews.csv").exists()


# ---- what operators copy ----------------------------------------------------------------------------------------

PACKAGING = ROOT / "packaging"


def words_of(line: str) -> list[str]:
    """A command line of the packaging without the program."""
    return line.split("bin/peerveil ")[-1].split()


def test_units_are_accepted_and_their_commands_exist(tmp_path: Path) -> None:
    import click

    from peerveil.cli.base import build_app

    for unit in (PACKAGING / "systemd").iterdir():
        text = unit.read_text(encoding="utf-8")
        for line in re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE):
            group, command, *options = words_of(line)
            context = click.Context(app := build_app())
            found = app.get_command(context, group).get_command(context, command)  # type: ignore[union-attr]
            found.make_parser(context).parse_args(options)
        (tmp_path / unit.name).write_text(text.replace("/opt/peerveil/bin/peerveil", sys.executable), encoding="utf-8")
    for name in ("peerveil-gateway.service", "peerveil-gateway-worker.service"):
        lines = (PACKAGING / "systemd" / name).read_text(encoding="utf-8").splitlines()
        assert {"MemorySwapMax=0", "LimitCORE=0", "CapabilityBoundingSet=", "ProtectSystem=strict"} <= set(lines)
    if shutil.which("systemd-analyze"):
        units = [str(path) for path in tmp_path.iterdir()]
        done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow  # nginx is not among what `make test` installs
def test_the_proxy_keeps_no_log_and_nginx_accepts_it(tmp_path: Path) -> None:
    text = (PACKAGING / "compose" / "nginx.conf").read_text(encoding="utf-8")
    assert text.count("access_log off;") == text.count("listen ")
    assert "X-Forwarded-For $" not in text
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    if not Path(nginx).exists() or not shutil.which("openssl"):
        pytest.skip("needs nginx and openssl")
    certificate = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=test"]
    out = ["-keyout", str(tmp_path / "site.key"), "-out", str(tmp_path / "site.crt")]
    subprocess.run([*certificate, *out], capture_output=True, check=True)
    site = text.replace("server gateway:", "server 127.0.0.1:").replace("/run/secrets", str(tmp_path))
    (tmp_path / "site.conf").write_text(site, encoding="utf-8")
    places = "".join(
        f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = f"pid {tmp_path}/pid; events {{}} http {{ access_log off; {places} include {tmp_path}/site.conf; }}"
    (tmp_path / "nginx.conf").write_text(main, encoding="utf-8")
    done = subprocess.run(
        [nginx, "-t", "-c", str(tmp_path / "nginx.conf")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_compose_file_holds_no_secret_and_its_files_exist() -> None:
    from peerveil.web.gateway import GatewaySettings

    folder = PACKAGING / "compose"
    compose = yaml.safe_load((folder / "compose.yaml").read_text(encoding="utf-8"))
    for service in compose["services"].values():
        assert service["memswap_limit"] == service["mem_limit"]  # no swap
        assert service["ulimits"] == {"core": 0}
        assert set(service["networks"]) <= set(compose["networks"])
        assert set(service.get("secrets", ())) <= set(compose["secrets"])
        assert not [name for name in service.get("environment", {}) if name in ("PEERVEIL_KEY", "PGPASSWORD")]
    assert all((folder / config["file"]).is_file() for config in compose["configs"].values())
    assert (ROOT / "packaging/compose" / compose["services"]["gateway"]["build"]["context"]).resolve() == ROOT
    assert GatewaySettings.read(folder / "gateway.toml").db == "postgresql://gateway@database/gateway"
    assert subprocess.run(["sh", "-n", str(folder / "start.sh")], check=False).returncode == 0
