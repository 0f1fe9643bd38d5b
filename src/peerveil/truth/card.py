"""The data card of published labels: what they are, what protects whom, and code that estimates from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from peerveil.data.table import plural

if TYPE_CHECKING:
    from peerveil.truth.publish import PublishedLabels

PLACEHOLDERS: Final = ("TITLE", "DESCRIPTION", "LICENSE", "CITATION")
"""What the publisher fills in; each stands in the card in brackets."""


def data_card(published: PublishedLabels, file: str) -> str:
    """The card in Markdown, for labels in a file of this name."""
    sent = published.sent
    response = sent.response
    classes = list(response.labels or range(response.k))
    epsilon, answers = str(response.exact_epsilon), len(sent.answers)
    frame = sent.frame()
    people, tasks = frame["worker"].n_unique(), frame["task"].n_unique()
    mark = "" if sent.mark is None else f"\n> **{sent.mark}.** These labels are a trial run: do not publish them.\n"
    whole = "This covers everything that one annotator sent."
    if sent.person_guarantee != sent.guarantee:
        verdict = sent.person_guarantee.verdict
        whole = f"All {sent.most:,} labels of the busiest annotator together are {verdict}."
    read = "read_parquet" if file.endswith(".parquet") else "read_csv"
    names, and_agreement, agreement_code = "PrivateDawidSkene", "", ""
    if published.agreement is not None:  # else the code would be refused for the reason that the card states
        names, and_agreement = "PrivateDawidSkene, agreement", ", and agreement between annotators"
        agreement_code = f'print(agreement("{file}", **settings).summary())\n'
    return f"""# [TITLE]
{mark}
[DESCRIPTION: what was asked, who was asked and when, how tasks were chosen]

`{file}` holds {plural(answers, "label")} of {plural(people, "annotator")} on {plural(tasks, "task")}, each randomized once.

| column | meaning |
|---|---|
| `task` | id of the task |
| `worker` | number of the annotator, drawn at random; labels with the same number come from the same person |
| `label` | randomized label, one of {", ".join(f"`{name}`" for name in classes)} |

Rows are sorted by task and number, which does not show when or in which order people answered.

## What is protected

{sent.guarantee}

{whole}

Each label is what the annotator answered with probability {response.keep:.4f}, and each other class with probability
{response.other:.4f} (randomized response with epsilon {epsilon} per label).

## What is not protected

- Which tasks an annotator answered, and how many.
- That labels of one number come from one person: whoever knows which tasks a person answered may find the number.
- What an answer must have been because it was obvious. No randomization hides that.
- Task ids and the list of classes: they are published as they are.
- Answers that are published a second time, randomized anew or not: each publication adds its own epsilon.

## How to estimate from it

Do not count these labels as if they were answers: shares are pulled toward even ones, and agreement toward chance.

Shares of the answers, with nothing but a table reader:

```python
import polars as pl

keep, other = {response.keep!r}, {response.other!r}
classes = {classes!r}
labels = pl.{read}("{file}")["label"]
shares = {{name: ((labels == name).mean() - other) / (keep - other) for name in classes}}
print(shares)
```

The label of every task{and_agreement}, with [peerveil](https://github.com/peerveil/peerveil):

```python
from peerveil.truth import {names}

settings = {{"epsilon": "{epsilon}", "classes": {classes!r}}}
result = PrivateDawidSkene(**settings).fit("{file}")
print(result.frame(probabilities=True))
{agreement_code}```

## Agreement

{published.agreement_sentence}

## License and citation

- License: [LICENSE]
- Citation: [CITATION]
"""
