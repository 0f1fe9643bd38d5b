"""The public face: exactly these names, each with a docstring."""

import peerveil.data as data


def test_exported_names() -> None:
    assert data.__all__ == [
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
        "recognize",
        "synthetic_conference",
    ]


def test_every_public_name_is_documented() -> None:
    for name in data.__all__:
        assert getattr(data, name).__doc__, name
