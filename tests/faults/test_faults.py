"""Faults in the source, each caught by a test that is not slow."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.faults.catalog import FAULTS, Fault
from tests.faults.runner import ROOT, SOURCE, caught_by, occurrences, run_tests

each = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
# they hold no behavior of their own that could be broken: words, bars, imports
WITHOUT = {"__init__"}


def test_there_are_thirty_and_every_package_has_one() -> None:
    assert len(FAULTS) >= 30
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    packages = {
        path.stem for path in (SOURCE / "peerveil").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert packages - {fault.package for fault in FAULTS} == WITHOUT


@each
def test_a_fault_fits_the_source_and_its_tests_exist_and_are_not_slow(fault: Fault) -> None:
    assert occurrences(fault) == 1, (
        f"edit tests/faults/catalog.py: the text of {fault.name} is not in {fault.file} once"
    )
    assert fault.after != fault.before
    changed = (SOURCE / "peerveil" / fault.file).read_text(encoding="utf-8").replace(fault.before, fault.after)
    ast.parse(changed)
    for test in fault.tests:
        file, _, name = test.partition("::")
        functions = {
            node.name: node
            for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body
            if isinstance(node, ast.FunctionDef)
        }
        if name:
            function = functions[name.partition("[")[0]]
            assert not any("slow" in ast.unparse(mark) for mark in function.decorator_list), test


@pytest.mark.slow
@each
def test_a_fault_is_caught(fault: Fault) -> None:
    done = run_tests(fault.tests, fault)
    assert caught_by(done), done.stdout[-2000:]


@pytest.mark.slow
def test_without_a_fault_the_same_tests_pass(tmp_path: Path) -> None:
    every = tuple(dict.fromkeys(test for fault in FAULTS for test in fault.tests))
    done = run_tests(every)
    assert done.returncode == 0, done.stdout[-2000:]
