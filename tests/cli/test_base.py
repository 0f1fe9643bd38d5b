"""The command line: help, JSON, errors, exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from tests.cli.runner import every_command, members, run

from peerveil import BadInput, Guarantee, Ledger, Randomness, __version__
from peerveil.cli import base
from peerveil.cli.base import BAD_INPUT, BUDGET_EXCEEDED, CHECK_FAILED, INTERNAL
from peerveil.core.files import check_out
from peerveil.data.readers import recognize


@pytest.mark.parametrize("name", every_command())
def test_every_command_has_help_with_an_example_json_and_debug(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = name.split()
    # click keeps the first help option that it makes: whoever asked before must not matter
    every_command()[name].get_help_option(click.Context(click.Command("other")))
    code, out, err = run(capsys, *path, "-h")
    assert code == 0, err
    assert f"peerveil {name}" in out.split("Example:", 1)[1]
    assert "--json" in out or path[-1] in ("serve", "work", "schema")  # these run until stopped, or print JSON anyway
    assert "--debug" in out


@pytest.mark.parametrize("name", every_command())
def test_every_parameter_has_help_and_every_variable_is_shown(name: str) -> None:
    for parameter in every_command()[name].params:
        assert isinstance(parameter, click.Option | base.Argument)
        assert parameter.help, parameter.name
        assert re.sub(r" \[(required|default: .*)\]$", "", parameter.help).endswith("."), parameter.name
        if parameter.envvar:
            record = parameter.get_help_record(click.Context(every_command()[name]))
            assert record is not None
            assert f"env var: {parameter.envvar}" in record[1]


def test_an_option_of_several_commands_has_one_help_text() -> None:
    texts: dict[str, set[str]] = {}
    for command in every_command().values():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                texts.setdefault(parameter.opts[0], set()).add(str(parameter.help))
    for name in ("--json", "--debug", "--out", "--force", "--account", "--column", "--format"):
        assert len(texts[name]) == 1, texts[name]


def test_help_groups_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for title in ("Start here:", "Data:", "Services:", "Trust:", "Common options:", "Example:"):
        assert f"\n{title}\n" in out
    for text in ("ledger", "audit", "demo", "console", "--json", "--version"):
        assert text in out


def test_a_listed_command_has_the_help_that_the_list_says() -> None:
    app = base.build_app()
    commands = members(app)
    for section in app.sections.values():
        for name, text in section.items():
            assert commands[name].get_short_help_str(200).removesuffix(".") == text


@pytest.mark.parametrize("command", [["--help"], ["ledger", "add-account", "--help"], ["--version"], ["ledger"]])
def test_help_imports_only_what_it_shows(command: list[str]) -> None:
    use = f"from peerveil.cli.base import run; run({command!r}, debug=False, as_json=False)"
    ours = "sorted(name for name in sys.modules if name.startswith('peerveil.'))"
    code = f"import sys\n{use}\nprint({ours}, 'numpy' in sys.modules, 'rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    group = ["peerveil.cli.ledger"] if "ledger" in command else []
    names = [
        "peerveil.cli",
        "peerveil.cli.base",
        *group,
        "peerveil.core",
        "peerveil.core.errors",
        *(["peerveil.core.files"] if group else []),
        "peerveil.core.lazy",
    ]
    assert done.stdout.splitlines()[-1] == f"{names} False False"


def complete(line: str) -> list[str]:
    """What bash would be offered at the end of a line."""
    words = line.split(" ")
    given = {"_PEERVEIL_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    code = "from peerveil.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **given}, capture_output=True, text=True, check=True
    )
    return [offer.partition(",")[2] for offer in done.stdout.splitlines()]


def test_the_shell_completes_commands_options_and_choices() -> None:
    assert complete("peerveil led") == ["ledger"]
    assert complete("peerveil ledger add") == ["add-account"]
    assert complete("peerveil gateway token --ro") == ["--role"]
    assert complete("peerveil gateway token --role ") == ["author", "reader", "operator", "platform"]
    assert complete("peerveil data check x.csv --kind re") == ["reviews"]
    script = subprocess.run(
        [sys.executable, "-c", "from peerveil.cli import main; main([])"],
        env={**os.environ, "_PEERVEIL_COMPLETE": "bash_source"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "_PEERVEIL_COMPLETE=bash_complete" in script.stdout


def test_formats_are_those_of_the_readers() -> None:
    assert tuple(recognize.FORMATS) == base.FORMATS


def test_version_and_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version")[:2] == (0, f"peerveil {__version__}\n")
    assert run(capsys, "--version", "--json")[0] == 0
    code, _, err = run(capsys, "ledger", "shwo")
    assert code == BAD_INPUT
    assert err.startswith("error: No such command 'shwo'")
    assert err.endswith("; try 'peerveil ledger --help'\n")
    assert len(err.splitlines()) == 1
    code, _, err = run(capsys, "gateway", "token", "--space", "forum")  # click spreads the choices over lines
    assert code == BAD_INPUT
    assert "author, reader, operator, platform; try 'peerveil gateway token --help'" in err
    assert len(err.splitlines()) == 1
    for arguments in (("nosuch",), ("demo", "--papers", "x"), ("data", "check")):
        code, _, err = run(capsys, *arguments, "--json")
        assert code == BAD_INPUT
        assert json.loads(err)["error"] == "UsageError"
    assert run(capsys, "data", "check")[0] == BAD_INPUT
    for group in ((), ("data",), ("ledger",)):
        code, out, err = run(capsys, *group)
        assert code == BAD_INPUT
        assert "Usage: " in out
        assert err == ""


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    promise = Guarantee.pure_dp("0.3", unit="one review", neighbors="one review has another score")
    with Ledger.open(path) as ledger:
        account = ledger.account("iclr", epsilon=1)
        account.spend(
            promise, purpose="means [bold]of[/bold] reviewers", data="reviews", randomness=Randomness.secure()
        )
    return path


def test_ledger_show(book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "ledger", "show", book)
    assert code == 0
    assert "means [bold]of[/bold] reviewers" in out  # what people write is shown as written
    assert "0.7 remains" in out
    code, out, _ = run(capsys, "ledger", "show", book, "--account", "iclr", "--json")
    assert json.loads(out)[0]["name"] == "iclr" if "name" in out else json.loads(out)[0]["account"] == "iclr"
    assert run(capsys, "--json", "ledger", "show", book, "--account", "iclr")[1] == out


@pytest.mark.parametrize("name", ["[/red]", "[red]evil", ":smile:"])
def test_names_are_shown_as_written(name: str, book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.open(book) as ledger:
        promise = Guarantee.local_dp("0.1")
        ledger.account(name, epsilon=1).spend(promise, purpose=name, data="x", randomness=Randomness.secure())
    code, out, _ = run(capsys, "ledger", "show", book, "--account", name)
    assert code == 0
    assert out.count(name) >= 3


def test_ledger_add_account_verify_export(book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "ledger", "add-account", book, "--account", "next", "--epsilon", "1/3")[0] == 0
    code, _, err = run(capsys, "ledger", "add-account", book, "--account", "next", "--epsilon", "0.5")
    assert code == BAD_INPUT
    assert "1/3" in err
    code, out, _ = run(capsys, "ledger", "verify", book, "--json")
    assert code == 0
    assert json.loads(out)["ok"] is True
    out_folder = tmp_path / "out" / "ledger"
    assert run(capsys, "ledger", "export", book, "--out", out_folder)[0] == 0
    for suffix in ("json", "csv"):
        assert "means" in (out_folder / f"ledger.{suffix}").read_text(encoding="utf-8")
    code, _, err = run(capsys, "ledger", "export", book, "--out", out_folder)
    assert code == BAD_INPUT
    assert "--force" in err
    assert run(capsys, "ledger", "export", book, "--out", out_folder, "--force")[0] == 0
    code, out, _ = run(capsys, "ledger", "export", book)
    assert code == 0
    assert json.loads(out) == json.loads((out_folder / "ledger.json").read_text(encoding="utf-8"))


def advised(error: BadInput) -> Path:
    """The folder that a refusal proposes."""
    return Path(error.want.removeprefix("a folder: for example "))


def test_out_is_a_folder_and_the_advice_works(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").touch()
    (tmp_path / "file").touch()
    (tmp_path / "dotted.d").mkdir()
    for accepted in ("new", "new/deeper", "dotted.d", "results-0.5", ".hidden"):
        check_out(tmp_path / accepted, force=False)
    for refused in ("ledger.csv", "new/page.html", "taken.json", "file.tar.gz", "file"):
        with pytest.raises(BadInput, match="^--out: .* need a folder: for example ") as error:
            check_out(tmp_path / refused, force=True)
        check_out(advised(error.value), force=False)
    with pytest.raises(BadInput, match=r"^FOLDER: got a folder that is not empty \(.* or --force"):
        check_out(tmp_path / "taken", force=False, name="FOLDER")
    check_out(tmp_path / "taken", force=True)
    with pytest.raises(BadInput, match="can be written to"):
        check_out(tmp_path / "file" / "deeper", force=True)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(BadInput, match="can be written to"):
        check_out(tmp_path / "new", force=True)


@pytest.mark.parametrize(
    "command",
    [
        ["data", "synthetic"],
        ["demo", "--out"],
        ["reproduce", "release/proposition-4.1", "--quick", "--out"],
        ["gateway", "page", "--out"],
        ["ledger", "export", "--out"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_every_command_refuses_a_file_for_a_folder(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, *command, "out/results.csv")
    assert code == BAD_INPUT
    assert "need a folder: for example out/results\n" in err
    assert list(tmp_path.iterdir()) == []


def test_a_missing_ledger_is_not_made_by_looking_at_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "ledger", "show", tmp_path / "none.db")
    assert code == BAD_INPUT
    assert err.startswith("error: ")
    assert "Traceback" not in out + err
    assert not (tmp_path / "none.db").exists()
    assert f"peerveil ledger add-account {tmp_path / 'none.db'} --account NAME" in err


def test_data_check_recognize_and_synthetic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "conference"
    assert run(capsys, "data", "synthetic", folder, "--papers", 30, "--reviewers", 20)[0] == 0
    before = (folder / "reviews.csv").read_bytes()
    code, _, err = run(capsys, "data", "synthetic", folder, "--papers", 31, "--reviewers", 20)
    assert code == BAD_INPUT
    assert "a folder that is not empty" in err
    assert (folder / "reviews.csv").read_bytes() == before
    assert run(capsys, "data", "synthetic", folder, "--papers", 30, "--reviewers", 20, "--force")[0] == 0
    code, out, _ = run(capsys, "data", "check", folder / "reviews.csv", "--json")
    assert code == 0
    assert json.loads(out)["tables"]["reviews"]["rows"] == 90
    code, out, _ = run(capsys, "data", "recognize", folder / "labels.csv")
    assert code == 0
    assert "labels" in out
    bad = tmp_path / "bad.csv"
    bad.write_text("paper,reviewer,score\n1,2,3\n1,3,abc\n", encoding="utf-8")
    code, out, _ = run(capsys, "data", "check", bad, "--kind", "reviews")
    assert code == BAD_INPUT
    assert "row 2" in out
    assert "abc" in out
    code, out, _ = run(capsys, "data", "check", bad, "--kind", "reviews", "--json")
    assert json.loads(out)["problems"]["reviews"][0]["column"] == "score"
    other = tmp_path / "other.csv"
    other.write_text("submission,who,rating\n1,2,3\n1,3,4\n", encoding="utf-8")
    columns = ["--column", "paper=submission", "--column", "reviewer=who", "--column", "score=rating"]
    assert run(capsys, "data", "check", other, "--kind", "reviews", *columns)[0] == 0
    assert run(capsys, "data", "check", other, "--kind", "reviews", "--column", "paper")[0] == BAD_INPUT


def test_the_audit_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "audit", "list", "--json")
    assert code == 0
    listed = json.loads(out)
    assert {row["module"] for row in listed} == {
        "randomness", "release", "timing", "calibration", "rankings", "truth", "gateway", "collect",
    }  # fmt: skip
    assert all(row["claimed"]["epsilon"] or row["claimed"]["error"] for row in listed)
    code, out, _ = run(capsys, "audit", "list")
    assert code == 0
    assert all(row["name"].split(",")[0] in out for row in listed)
    given = ["audit", "run", "--no-broken", "--out", tmp_path / "out"]
    code, out, _ = run(capsys, *given, "--samples", 200, "--json")
    assert code == 0
    data = json.loads(out)["results"]
    assert data["passed"] is True
    assert [row["name"] for row in data["audits"]] == [row["name"] for row in listed if row["fault"] is None]
    assert len(data["exact"]) == 28
    assert run(capsys, *given, "--force", "--samples", 3)[0] == BAD_INPUT


def test_a_refuted_claim_is_exit_code_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from peerveil.audit import claims
    from peerveil.study.audit import load_claims

    load_claims()
    fault = claims.registered(broken=True)[0]
    monkeypatch.setattr(claims, "registered", lambda *, broken: [] if broken else [fault])
    code, out, _ = run(capsys, "audit", "run", "--samples", 5000, "--no-broken", "--out", tmp_path / "out")
    assert code == CHECK_FAILED
    assert "REFUTED" in out


@pytest.mark.parametrize("as_json", [False, True])
def test_errors_are_one_line_and_tracebacks_need_debug(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import peerveil.study.demo
    from peerveil.ledger import BudgetExceeded

    def fail(error: BaseException) -> Any:
        def demo(*_: object, **__: object) -> None:
            raise error

        return demo

    from fractions import Fraction

    over = BudgetExceeded("iclr", requested=Fraction(1), remaining=Fraction(1, 2))
    for error, expected in ((over, BUDGET_EXCEEDED), (ZeroDivisionError("oops"), INTERNAL), (KeyboardInterrupt(), 130)):
        monkeypatch.setattr(peerveil.study.demo, "run_demo", fail(error))
        extra = ["--json"] if as_json else []
        code, out, err = run(capsys, "demo", "--out", tmp_path, *extra)
        assert code == expected
        assert "Traceback" not in out + err
        if expected != 130:
            assert len(err.strip().splitlines()) == 1
            if as_json:
                assert set(json.loads(err)) == {"error", "message"}
    monkeypatch.setattr(peerveil.study.demo, "run_demo", fail(ZeroDivisionError("oops")))
    code, _, err = run(capsys, "demo", "--debug")
    assert code == INTERNAL
    assert "Traceback" in err
    monkeypatch.setattr(peerveil.study.demo, "run_demo", fail(PermissionError(13, "Permission denied", "/proc/x")))
    assert run(capsys, "demo")[::2] == (BAD_INPUT, "error: /proc/x: Permission denied\n")


def test_the_installed_command_is_quiet_when_it_is_not_on_a_terminal(book: Path) -> None:
    command = Path(sys.executable).parent / "peerveil"
    done = subprocess.run([command, "ledger", "show", book], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    piped = subprocess.run(
        f"'{command}' ledger export '{book}' | head -c 1", shell=True, capture_output=True, text=True, check=False
    )
    assert piped.stdout == "{"
    assert piped.stderr == ""
    shown = f"'{command}' ledger show '{book}' | head -c 1; exit ${{PIPESTATUS[0]}}"
    piped = subprocess.run(["bash", "-c", shown], capture_output=True, text=True, check=False)
    assert (piped.returncode, piped.stderr) == (0, "")
