"""One declaration, five surfaces: commands, study files, forms, JSON schema and reference say the same of every action."""

from __future__ import annotations

import inspect
import json
import shlex
import subprocess
import sys
from dataclasses import MISSING
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import click
import jsonschema_rs
import pytest

from peerveil import BadInput, Ledger
from peerveil.cli.actions import command, texts_of
from peerveil.cli.base import build_app
from peerveil.data import synthetic_conference
from peerveil.study import Study
from peerveil.study.actions import KINDS, Action, Parameter, Setting, _whole, all_actions, find_action
from peerveil.study.execute import Inputs, StudyFile, execute
from peerveil.study.outcome import Outcome
from peerveil.study.schema import action_reference, reference_page, step_schema, study_schema
from peerveil.study.spelling import Duration, Epsilon, Range
from peerveil.study.toml import SuggestedStep
from peerveil.web.console.pages.modules import form_fields
from peerveil.web.console.studies import form_text, offered, read_settings

EVERY = all_actions()
EACH = pytest.mark.parametrize("kind", EVERY.values(), ids=EVERY)
PARAMETERS = [(kind, parameter) for kind in EVERY.values() for parameter in kind.parameters()]
EACH_PARAMETER = pytest.mark.parametrize(
    ("kind", "parameter"), PARAMETERS, ids=[f"{kind.name}-{parameter.name}" for kind, parameter in PARAMETERS]
)

# whatever somebody might write in a study file
VALUES: list[Any] = [
    None, True, False, 0, 1, 2, 3, 7, 60, 100, 999, 10**6, 10**9, 10**20, -1,
    0.0, 0.05, 0.25, 0.5, 0.9, 1.0, 1.5, 50.0, 99.5, 1e-12, 1e300, -0.5,
    "", " ", "0", "1", "0.5", "1/3", "0/3", "3/0", "01/2", ".5", "5.", "1e3", "-1", "none", "None", "nan", "inf", "٣",
    "5m", "90s", "1.5h", "2d", "1.5.h", "45 min", "10 sec", "5", "5x", "-5m", "0s", "1:10", "4,2", "yes,no", "yes", "no", "true",
    "rating", "miscalibration", "auto", "memory", "paper", "items", "thread", "reviews", "x" * 5000, "a\0b", "$(rm)", "file.csv",
    [], [1], [1, 10], [10, 1], [4, 2], [0.5, 2], [1, 2, 3], ["yes", "no"], ["yes", "yes"], ["1/3", 2], [True, False], [0, 1],
    ["a", ""], [[1, 2], [3, 4]], [None], ["auto"], ["none", 1], {}, {"a": 1}, ["x"], [-1.0, 0.5], [1, "10"],
]  # fmt: skip


def sample(parameter: Parameter) -> Any:
    """A value of a study file that a parameter takes."""
    if parameter.name == "classes":
        return ["yes", "no"]
    return next(value for value in VALUES[::-1] if value is not None and accepts(parameter, value))


@cache
def owner(parameter_id: int) -> type[Action[Any]]:
    return next(kind for kind, parameter in PARAMETERS if id(parameter) == parameter_id)


def accepts(parameter: Parameter, value: Any) -> bool:
    """Whether a study file may hold this value; rules over several parameters do not count."""
    from pydantic import ValidationError

    try:
        owner(id(parameter)).adapter().validate_json(json.dumps({parameter.name: _whole(value)}), strict=True)
    except ValidationError as error:
        return parameter.name not in {item["loc"][0] for item in error.errors() if item["loc"]}
    return True


# ---- the five surfaces ---------------------------------------------------------------------------------------------------


def options(kind: type[Action[Any]]) -> dict[str, click.Option]:
    return {str(option.name): option for option in command(kind).params if isinstance(option, click.Option)}


@EACH
def test_a_command_has_the_declared_options_with_their_help(kind: type[Action[Any]]) -> None:
    made = options(kind)
    for parameter in kind.parameters():
        option = made[parameter.name]
        assert parameter.flag in option.opts
        assert option.help is not None
        assert option.help.startswith(parameter.setting.help)
        if parameter.choices:
            assert option.metavar == f"[{'|'.join(parameter.choices)}]"
        elif not parameter.is_flag:
            assert parameter.want[1:] in option.help
        if parameter.default not in (None, ()):
            assert f"[default: {parameter.text(parameter.default)}]" in option.help
        assert ("[required]" in option.help) is parameter.required
        assert option.multiple is parameter.many
    common = set(made) - {parameter.name for parameter in kind.parameters()}
    wanted = {"out", "force", "as_json", "debug"}
    wanted |= {"columns", "format_", "header", "separator"} if kind.kinds else set()
    wanted |= {"kind"} if len(kind.kinds) > 1 else set()
    wanted |= {"time_zone"} if {"events", "reviews"} & set(kind.kinds) else set()
    wanted |= {"layout"} if "rankings" in kind.kinds else set()
    wanted |= {"ledger", "account", "seed"} if kind.spends else set()
    assert common == wanted


@EACH
def test_the_command_stands_in_its_group(kind: type[Action[Any]]) -> None:
    app = build_app()
    group = app.get_command(click.Context(app), kind.module())
    assert isinstance(group, click.Group)
    assert kind.verb() in group.list_commands(click.Context(group))


@EACH
def test_its_examples_are_accepted(kind: type[Action[Any]]) -> None:
    assert kind.examples
    for example in kind.examples:
        given = command(kind).make_context(kind.name, shlex.split(example)).params
        kind.check(texts_of(kind, given))


@EACH
def test_a_form_offers_the_declared_settings(kind: type[Action[Any]]) -> None:
    fields = {field.parameter.name: field for field in form_fields(kind, None, {}, [])}
    assert list(fields) == [parameter.name for parameter in offered(kind)]
    for parameter in offered(kind):
        field = fields[parameter.name]
        assert field.parameter == parameter
        assert field.value == parameter.text(parameter.default)
        refers = parameter.refers
        assert field.needed is (parameter.required or (refers is not None and not refers.is_optional))
        assert field.choices == (("true", "false") if parameter.is_flag else parameter.choices)
    hidden = {parameter.name for parameter in kind.parameters()} - set(fields)
    assert all(parameter.refers is not None and parameter.refers.kind is None
               for parameter in kind.parameters() if parameter.name in hidden)  # fmt: skip


@EACH
def test_the_schema_has_the_declared_settings(kind: type[Action[Any]]) -> None:
    schema = step_schema(kind)
    own = {"action", "name"} | ({"data"} if kind.kinds else set()) | ({"account"} if kind.spends else set())
    assert set(schema["properties"]) == own | {parameter.name for parameter in kind.parameters()}
    assert schema["additionalProperties"] is False
    for parameter in kind.parameters():
        described = schema["properties"][parameter.name]
        assert parameter.setting.help in described["description"]
        assert parameter.want[1:] in described["description"]
        assert (parameter.name in schema["required"]) is parameter.required
        if parameter.default is not None:
            assert described["default"] == parameter.plain(parameter.default)
            assert jsonschema_rs.is_valid(described, described["default"])


@EACH
def test_the_reference_has_the_declared_settings(kind: type[Action[Any]]) -> None:
    text = action_reference(kind)
    assert f"## {kind.name}" in text
    assert kind.about in text
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(rows) == len(kind.parameters())
    for row, parameter in zip(rows, kind.parameters(), strict=True):
        assert f"`{parameter.flag}`" in row
        assert parameter.want in row
        assert parameter.setting.help in row
        assert ("required" in row) or not parameter.required
    assert text in reference_page()


@EACH
def test_a_study_takes_the_declared_keys_and_no_others(kind: type[Action[Any]]) -> None:
    with pytest.raises(BadInput, match="no_such_setting"):
        kind.check({"no_such_setting": 1}, strict=True)
    for parameter in kind.parameters():
        misspelled = f"{parameter.name}x"
        with pytest.raises(BadInput, match=parameter.name):
            kind.check({misspelled: 1}, strict=True)


# ---- reader, schema and forms agree on every value -------------------------------------------------------------------------


@EACH_PARAMETER
def test_reader_and_schema_agree(kind: type[Action[Any]], parameter: Parameter) -> None:
    schema = step_schema(kind)["properties"][parameter.name]
    validator = jsonschema_rs.Draft202012Validator(schema)
    disagreed = [
        value for value in VALUES if value is not None and validator.is_valid(value) is not accepts(parameter, value)
    ]
    # a schema cannot say that the first of two numbers is the lower one
    assert disagreed == (["4,2", [10, 1], [4, 2]] if parameter.name in ("scale", "bounds") else [])


@EACH_PARAMETER
def test_a_value_survives_text_and_file(kind: type[Action[Any]], parameter: Parameter) -> None:
    base = {other.name: sample(other) for other in kind.parameters() if other.required}
    for value in VALUES:
        if value is None or not accepts(parameter, value):
            continue
        try:
            action = kind.check({**base, parameter.name: value}, strict=True)
        except BadInput:  # a rule over several parameters
            continue
        read = getattr(action, parameter.name)
        again = kind.check({**base, **action.settings()}, strict=True)
        assert again == action  # a study file holds all of it
        text = parameter.text(read)
        if (
            text and "," not in str(value) and parameter.name != "classes"
        ):  # texts of classes stay texts: the data say more
            form = {other.name: other.text(getattr(action, other.name)) for other in kind.parameters()}
            from_form = kind.check({other.name: other.from_text(form[other.name]) for other in kind.parameters()
                                    if form[other.name]})  # fmt: skip
            assert getattr(from_form, parameter.name) == read


@EACH
def test_the_defaults_of_a_form_are_the_defaults(kind: type[Action[Any]]) -> None:
    base = {other.name: sample(other) for other in kind.parameters() if other.required}
    try:
        action = kind.check(base, strict=True)
    except BadInput:  # a rule over several parameters; tested with the module
        return
    texts = {parameter.name: parameter.text(getattr(action, parameter.name)) for parameter in offered(kind)}
    assert read_settings(kind, texts) == action.settings()
    for parameter in offered(kind):
        assert form_text(parameter, parameter.plain(getattr(action, parameter.name))) == texts[parameter.name]


@EACH
def test_refusals_use_the_declared_words(kind: type[Action[Any]]) -> None:
    for parameter in kind.parameters():
        with pytest.raises(BadInput) as refused:
            kind.check({parameter.name: {"not": "a value"}}, strict=True)
        problems = {problem.argument: problem for problem in getattr(refused.value, "problems", (refused.value,))}
        assert problems[parameter.name].want == parameter.want


@EACH
def test_defaults_are_those_of_the_function(kind: type[Action[Any]]) -> None:
    if not kind.calls:
        return
    module, _, name = kind.calls.partition(":")
    signature = inspect.signature(getattr(import_module(module), name))
    for parameter in kind.parameters():
        own = signature.parameters.get(parameter.name)
        if own is None:
            continue
        assert own.kind is inspect.Parameter.KEYWORD_ONLY, f"{kind.calls}({parameter.name})"
        if parameter.required or own.default is inspect.Parameter.empty:
            continue
        ours, theirs = parameter.default, own.default
        if parameter.many and theirs is None:  # nothing, said in Python
            ours = ours or None
        elif parameter.many:
            ours, theirs = [str(item) for item in ours], [str(item) for item in theirs]
        assert ours == theirs or str(ours) == str(theirs), f"{kind.calls}({parameter.name})"


# ---- a setting changed in one place ----------------------------------------------------------------------------------------


def changed() -> type[Action[Any]]:
    """An action as somebody would write it, with settings that no other has."""

    class Trial(Action[Any]):
        name, title = "release.trial", "Try it"
        about, publishes = "Try something.", "something"
        kinds, spends = ("reviews",), True
        epsilon: Annotated[Epsilon, Setting("Privacy budget of the trial.", common=True)]
        patience: Annotated[Duration, Setting("How long to wait.", "Patience")] = 5400.0
        rounds: Annotated[int, Range(ge=3, le=77), Setting("Rounds of the trial.")] = 42

    return Trial


def test_a_setting_changed_in_one_place_changes_every_surface() -> None:
    kind = changed()
    assert "[default: 1.5h]" in str(options(kind)["patience"].help)
    assert "A whole number from 3 to 77. [default: 42]" in str(options(kind)["rounds"].help)
    fields = {field.parameter.name: field for field in form_fields(kind, None, {}, [])}
    assert (fields["patience"].parameter.label, fields["patience"].value) == ("Patience", "1.5h")
    schema = step_schema(kind)["properties"]["rounds"]
    assert (schema["minimum"], schema["maximum"], schema["default"]) == (3, 77, 42)
    row = "| `rounds` `--rounds` | Rounds of the trial. | a whole number from 3 to 77 | `42` |"
    assert row in action_reference(kind)
    assert kind.check({"epsilon": 1, "rounds": 77}, strict=True).settings() == {"epsilon": "1", "rounds": 77}
    with pytest.raises(BadInput, match="rounds: got 78, need a whole number from 3 to 77"):
        kind.check({"epsilon": 1, "rounds": 78}, strict=True)


# ---- what is spent is counted ----------------------------------------------------------------------------------------------

SPENDING = {name: kind for name, kind in EVERY.items() if kind.spends}
EACH_SPENDING = pytest.mark.parametrize("kind", SPENDING.values(), ids=SPENDING)


class Never(Exception):
    """The action ran although it should have been refused."""


@EACH
def test_an_account_without_a_ledger_and_the_reverse_are_refused(
    kind: type[Action[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> Outcome:
        raise Never

    monkeypatch.setattr(kind, "run", never)
    monkeypatch.setattr(kind, "guarantee", lambda *_: None)
    monkeypatch.setattr("peerveil.study.execute.read_inputs", lambda *_: Inputs(None))
    action = object.__new__(kind)
    source = StudyFile(path=tmp_path / "data.csv") if kind.kinds else None
    ledger = str(tmp_path / "budget.db")
    with Ledger.open(ledger) as book:
        book.account("main", epsilon=1)
    for given in ({"ledger": ledger}, {"account": "main"}):
        with pytest.raises(BadInput, match="--account"):
            execute(action, source, tmp_path / "out", **given)  # type: ignore[arg-type]
    if kind.spends:
        with pytest.raises(BadInput, match="--seed"):
            execute(action, source, tmp_path / "out", ledger=ledger, account="main", seed=1)
    else:
        with pytest.raises(BadInput, match="spends nothing"):
            execute(action, source, tmp_path / "out", ledger=ledger, account="main")
    assert not (tmp_path / "out").exists()
    with pytest.raises(Never):  # the right call does run
        execute(action, source, tmp_path / "out", **({"ledger": ledger, "account": "main"} if kind.spends else {}))  # type: ignore[arg-type]


@EACH_SPENDING
def test_a_study_refuses_a_spending_step_without_an_account(kind: type[Action[Any]], tmp_path: Path) -> None:
    table = synthetic_conference(20, 15, seed=1)
    getattr(table, kind.kinds[0]).write(tmp_path / "data.csv")
    settings = {parameter.name: sample(parameter) for parameter in kind.parameters() if parameter.required}
    settings |= {
        parameter.name: "data" for parameter in kind.parameters() if parameter.refers is not None and parameter.required
    }
    step = SuggestedStep("", settings).text(kind, data="data")
    head = f'[study]\ntitle = "x"\n[accounts.main]\nepsilon = 1\n[data.data]\npath = "data.csv"\nkind = "{kind.kinds[0]}"\n'
    file = tmp_path / "study.toml"
    file.write_text(f"{head}{step}", encoding="utf-8")
    with pytest.raises(BadInput, match=r"steps\[1\].account"):
        Study.read(file)


def test_what_is_drawn_once_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "earlier").touch()
    once = [kind for kind in EVERY.values() if kind.drawn_once]
    assert {kind.name for kind in once} == {"timing.post", "calibration.decide"}
    for kind in once:
        with pytest.raises(BadInput, match="drawn once"):
            execute(object.__new__(kind), StudyFile(path=tmp_path / "data.csv"), tmp_path, force=True)


# ---- weight ----------------------------------------------------------------------------------------------------------------


def test_declarations_import_nothing_heavy() -> None:
    code = (
        "import sys; from peerveil.study.actions import all_actions; all_actions();"
        "print([m for m in ('numpy', 'polars', 'scipy', 'pydantic', 'matplotlib', 'sqlalchemy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_action_is_declared_once_and_in_words() -> None:
    assert all(name == kind.name for name, kind in EVERY.items())
    for kind in EVERY.values():
        assert kind.about.endswith(".")
        assert kind.title
        assert kind.publishes or kind.operator
        assert set(kind.kinds) <= set(KINDS)
        assert all(not parameter.setting.help.endswith("..") for parameter in kind.parameters())
        assert all(parameter.setting.help.endswith((".", "?")) for parameter in kind.parameters()), kind.name
        for parameter in kind.parameters():  # plain text has no rule: it must have a spelling
            assert parameter.want != "text", f"{kind.name} {parameter.name}"
        assert not kind.once or kind.spends
        assert not kind.recorded or kind.spends
    assert MISSING not in [parameter.default for _, parameter in PARAMETERS]


def test_an_unknown_action_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadInput, match="'release.publish'"):
        find_action("release.publsh")
    for odd in (None, 1, "", "release", "release.", ".publish", "os.system", "release.publish.x"):
        with pytest.raises(BadInput):
            find_action(odd)


def test_the_whole_schema_takes_the_examples_and_refuses_others() -> None:
    validator = jsonschema_rs.Draft202012Validator(study_schema())
    study = {
        "study": {"title": "Scores"},
        "accounts": {"main": {"epsilon": "1/3"}},
        "data": {"reviews": {"path": "reviews.csv"}},
        "steps": [{"action": "release.publish", "data": "reviews", "account": "main", "epsilon": 1}],
    }
    assert validator.is_valid(study)
    for wrong in ({"action": "release.publish", "data": "reviews", "account": "main", "epsilon": 0},
                  {"action": "release.publsh"}, {"action": "release.publish", "data": "reviews", "epsilom": 1}):  # fmt: skip
        assert not validator.is_valid({**study, "steps": [wrong]})


def test_an_editor_is_offered_every_key_and_choice_and_refuses_nothing_for_it() -> None:
    step = study_schema()["properties"]["steps"]["items"]
    assert "allOf" not in step  # Taplo offers nothing beside it
    own = {"action", "name", "data", "account"}
    assert set(step["properties"]) == own | {parameter.name for _, parameter in PARAMETERS}
    for kind, parameter in PARAMETERS:
        listed = step["properties"][parameter.name]
        offered_here = listed.get("enum", listed.get("anyOf", [{}])[0].get("enum", ()))
        assert set(parameter.choices) <= set(offered_here) or parameter.many
        exact = jsonschema_rs.Draft202012Validator(step_schema(kind)["properties"][parameter.name])
        assert all(jsonschema_rs.is_valid(listed, value) for value in VALUES if exact.is_valid(value))
