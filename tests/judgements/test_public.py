"""The public face: exactly these names, each with a docstring."""

import peerveil.judgements as judgements


def test_exported_names() -> None:
    assert judgements.__all__ == [
        "BadTable",
        "Events",
        "HiddenTruth",
        "Labels",
        "Problem",
        "Rankings",
        "Reviews",
        "SyntheticConference",
        "TableDescription",
        "describe",
        "recognise",
        "synthetic_conference",
    ]


def test_every_public_name_is_documented() -> None:
    for name in judgements.__all__:
        assert getattr(judgements, name).__doc__, name
