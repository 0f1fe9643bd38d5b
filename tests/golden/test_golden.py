"""Outputs of every command, study step and public function, as they were when they were last written down.

An output changes only where it is meant to: ``python -m tests.golden --write`` then writes it, and the commit lists it.
"""

from __future__ import annotations

import inspect
import shlex
from importlib import import_module

import pytest
from tests.cli.runner import every_command
from tests.golden import commands, functions, steps
from tests.golden.normal import describe, same
from tests.golden.store import FOLDER, GROUPS, REWRITE, differences, outputs, stored

from peerveil.study import all_actions


@pytest.mark.parametrize("group", GROUPS)
def test_outputs_are_what_was_written_down(group: str) -> None:
    found = differences(group, outputs(group))
    assert not found, f"{group} changed; if it was meant to: {REWRITE} {group}\n{found}"


def test_every_command_has_a_case_or_a_reason() -> None:
    names = every_command()
    lines = [line for group in commands.GROUPS.values() for line in group]
    cases = {name for name in names for line in lines if shlex.split(line)[: len(name.split())] == name.split()}
    assert set(names) - cases == set(commands.WITHOUT)


def test_every_study_step_has_a_case() -> None:
    assert set(steps.STEPS) == set(all_actions())


@pytest.mark.parametrize("module", functions.MODULES)
def test_every_public_name_has_a_case_or_a_reason(module: str) -> None:
    """Functions by their own name; classes also where a case shows one of them."""
    exported = import_module(f"peerveil.{module}")
    shown = "\n".join(stored(f"module-{module}").values())
    without = {name.removeprefix(f"{module}.") for name in functions.WITHOUT if name.startswith(f"{module}.")}
    missing = {
        name for name in exported.__all__
        if name not in functions.CASES[module]
        and not (inspect.isclass(getattr(exported, name)) and f"<{name}>" in shown)
    }  # fmt: skip
    assert missing == without
    assert set(functions.CASES[module]) <= set(exported.__all__)


def test_no_output_is_stored_that_no_group_makes() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(GROUPS)


def test_the_stored_outputs_stay_small() -> None:
    sizes = [path.stat().st_size for path in FOLDER.iterdir()]
    assert max(sizes) < 150_000
    assert sum(sizes) < 600_000


def test_rounding_error_is_no_change_and_anything_else_is() -> None:
    assert same("loss 0.1234567891 of 12", "loss 0.1234567892 of 12")
    assert not same("loss 0.12345 of 12", "loss 0.12346 of 12")
    assert not same("loss 0.1234567891 of 12", "loss 0.1234567891 of 13")
    assert not same("loss 0.5", "gain 0.5")


def test_a_change_deep_in_a_long_list_is_seen() -> None:
    values = [float(i) for i in range(100)]
    moved = [*values[:50], values[51], values[50], *values[52:]]
    assert not same(describe(values), describe(moved))
    assert not same(describe(["a"] * 50 + ["b"]), describe(["b"] + ["a"] * 50))
