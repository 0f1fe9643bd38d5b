"""The command line: help, JSON, errors, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.runner import run

from peerveil import Guarantee, Ledger, Randomness, __version__
from peerveil.cli import base
from peerveil.cli.base import BAD_INPUT, BUDGET_EXCEEDED, CHECK_FAILED, INTERNAL


def every_command() -> list[list[str]]:
    app = base.build_app()
    paths = [[str(command.name)] for command in app.registered_commands]
    for group in app.registered_groups:
        assert group.typer_instance is not None
        name = str(group.typer_instance.info.name)
        paths += [[name, str(command.name)] for command in group.typer_instance.registered_commands]
    return paths


@pytest.mark.parametrize("path", every_command(), ids=" ".join)
def test_every_command_has_help_with_an_example_json_and_debug(
    path: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, *path, "--help")
    assert code == 0
    assert f"peerveil {' '.join(path)}" in out.split("Example", 1)[1]
    assert "--json" in out or path[-1] in ("serve", "work")  # these run until stopped, and print no result
    assert "--debug" in out


def test_help_groups_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for word in ("Start here", "Data", "Trust", "ledger", "audit", "demo"):
        assert word in out


def test_version_and_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version")[:2] == (0, f"peerveil {__version__}\n")
    assert run(capsys, "--version", "--json")[0] == 0
    code, _, err = run(capsys, "ledger", "shwo")
    assert code == BAD_INPUT
    assert "No such command" in err
    assert len(err.strip().splitlines()) == 1
    for arguments in (("nosuch",), ("demo", "--papers", "x"), ("data", "check")):
        code, _, err = run(capsys, *arguments, "--json")
        assert code == BAD_INPUT
        assert json.loads(err)["error"] == "UsageError"
    assert run(capsys, "data", "check")[0] == BAD_INPUT
    for group in ((), ("truth",), ("ledger",)):
        code, out, err = run(capsys, *group)
        assert code == BAD_INPUT
        assert "Usage: " in out
        assert err == ""


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    promise = Guarantee.pure_dp("0.3", unit="one review", neighbours="one review has another score")
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


@pytest.mark.parametrize("name", ["[/red]", "[red]evil", ":smile:"])
def test_names_are_shown_as_written(name: str, book: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.open(book) as ledger:
        promise = Guarantee.local_dp("0.1")
        ledger.account(name, epsilon=1).spend(promise, purpose=name, data="x", randomness=Randomness.secure())
    code, out, _ = run(capsys, "ledger", "show", book, "--account", name)
    assert code == 0
    assert out.count(name) >= 3


def test_ledger_open_verify_export(book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "ledger", "open", book, "--account", "next", "--epsilon", "1/3")[0] == 0
    code, _, err = run(capsys, "ledger", "open", book, "--account", "next", "--epsilon", "0.5")
    assert code == BAD_INPUT
    assert "1/3" in err
    code, out, _ = run(capsys, "ledger", "verify", book, "--json")
    assert code == 0
    assert json.loads(out)["ok"] is True
    for suffix in ("json", "csv"):
        target = tmp_path / f"ledger.{suffix}"
        assert run(capsys, "ledger", "export", book, "--to", target)[0] == 0
        assert "means" in target.read_text(encoding="utf-8")
    assert run(capsys, "ledger", "export", book, "--to", tmp_path / "ledger.xls")[0] == BAD_INPUT
    code, _, err = run(capsys, "ledger", "export", book, "--to", tmp_path / "ledger.csv")
    assert code == BAD_INPUT
    assert "--force" in err
    code, out, _ = run(capsys, "ledger", "export", book)
    assert code == 0
    assert json.loads(out)


def test_a_missing_ledger_is_not_made_by_looking_at_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "ledger", "show", tmp_path / "none.db")
    assert code == BAD_INPUT
    assert err.startswith("error: ")
    assert "Traceback" not in out + err
    assert not (tmp_path / "none.db").exists()
    assert f"peerveil ledger open {tmp_path / 'none.db'} --account NAME" in err


def test_data_check_recognise_and_synthetic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "conference"
    assert run(capsys, "data", "synthetic", folder, "--papers", 30, "--reviewers", 20)[0] == 0
    before = (folder / "reviews.csv").read_bytes()
    code, _, err = run(capsys, "data", "synthetic", folder, "--papers", 31, "--reviewers", 20)
    assert code == BAD_INPUT
    assert "a folder with files in it" in err
    assert (folder / "reviews.csv").read_bytes() == before
    assert run(capsys, "data", "synthetic", folder, "--papers", 30, "--reviewers", 20, "--force")[0] == 0
    code, out, _ = run(capsys, "data", "check", folder / "reviews.csv", "--json")
    assert code == 0
    assert json.loads(out)["tables"]["reviews"]["rows"] == 90
    code, out, _ = run(capsys, "data", "recognise", folder / "labels.csv")
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


def test_the_audit_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "audit", "run", "--samples", 200, "--no-faults", "--json")
    assert code == 0
    data = json.loads(out)
    assert data["passed"] is True
    assert len(data["exact"]) == 28
    assert run(capsys, "audit", "run", "--samples", 3)[0] == BAD_INPUT


def test_a_refuted_claim_is_exit_code_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from peerveil.audit import cases
    from peerveil.release import adversary

    broken = next(cases.planted_faults())
    monkeypatch.setattr(cases, "house_cases", lambda: iter([broken]))
    monkeypatch.setattr(adversary, "audit_cases", lambda: iter([]))
    code, out, _ = run(capsys, "audit", "run", "--samples", 5000, "--no-faults")
    assert code == CHECK_FAILED
    assert "REFUTED" in out


@pytest.mark.parametrize("as_json", [False, True])
def test_errors_are_one_line_and_tracebacks_need_debug(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import peerveil.demo
    from peerveil.ledger import BudgetExceeded

    def fail(error: BaseException) -> Any:
        def demo(*_: object, **__: object) -> None:
            raise error

        return demo

    from fractions import Fraction

    over = BudgetExceeded("iclr", requested=Fraction(1), remaining=Fraction(1, 2))
    for error, expected in ((over, BUDGET_EXCEEDED), (ZeroDivisionError("oops"), INTERNAL), (KeyboardInterrupt(), 130)):
        monkeypatch.setattr(peerveil.demo, "run_demo", fail(error))
        extra = ["--json"] if as_json else []
        code, out, err = run(capsys, "demo", "--out", tmp_path, *extra)
        assert code == expected
        assert "Traceback" not in out + err
        if expected != 130:
            assert len(err.strip().splitlines()) == 1
            if as_json:
                assert set(json.loads(err)) == {"error", "message"}
    monkeypatch.setattr(peerveil.demo, "run_demo", fail(ZeroDivisionError("oops")))
    code, _, err = run(capsys, "demo", "--debug")
    assert code == INTERNAL
    assert "Traceback" in err
    monkeypatch.setattr(peerveil.demo, "run_demo", fail(PermissionError(13, "Permission denied", "/proc/x")))
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
