"""Collect: answers that are randomized before they leave the device.

Local differential privacy is real only if the noise is added where the person sits. This service collects the labels of the
truth module and the one-bit answers of the rankings module from browsers and programs, and never sees an unrandomized answer.

- **What is asked, and under which terms**: :class:`Campaign`.
- **On the person's side**: ``static/peerveil-client.js`` in browsers, :class:`CollectClient` in Python. Both check the terms
  before they take an answer, and never randomize one twice.
- **The operator's side**: :class:`Store` (campaigns, tokens, randomized answers), :func:`export`, :func:`infer`; the web
  service is :func:`peerveil.web.collect.service.build_app` (``peerveil collect serve``).

>>> terms = {"id": "lake", "title": "Birds", "classes": ["no", "yes"], "tasks": ["1", "2", "3"], "epsilon": 1}
>>> print(Campaign.from_dict(terms).person_guarantee)  # doctest: +NORMALIZE_WHITESPACE
Local differential privacy with epsilon 3 for all answers of one person: whatever leaves the person's device is at most 20.09
times as likely in one case as in the other, and a 50:50 guess between the two is right at most 95.3% of the time, whatever else a
reader knows (neighbors: one person gives any other answers to the same tasks; which tasks were answered is not hidden).
"""

from peerveil.web.collect.answers import export
from peerveil.web.collect.campaign import Campaign
from peerveil.web.collect.client import CollectClient
from peerveil.web.collect.inference import infer
from peerveil.web.collect.store import Store

__all__ = ["Campaign", "CollectClient", "Store", "export", "infer"]
