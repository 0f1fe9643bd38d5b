"""Deliberate faults, spread over all packages; `make test` must catch each of them.

An entry names a file under ``src/peerveil``, a text that occurs in it exactly once, what stands there in the faulty version,
and the tests (none of them slow) of which at least one must then fail. When code moves, edit the entry: ``python -m
tests.faults NAME`` says whether the fault is still caught.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Fault:
    """One change of the source that tests must notice."""

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    @property
    def package(self) -> str:
        """The package or module of peerveil that is broken."""
        return self.file.split("/")[0].removesuffix(".py")


FAULTS: Final = (
    # ---- the foundation --------------------------------------------------------------------------------------------
    Fault(
        "epsilon-is-rounded-down",
        "core/guarantee/value.py",
        'printed(self.exact_epsilon, "up")',
        'printed(self.exact_epsilon, "down")',
        ("tests/core/test_guarantee.py::test_parameters_as_floats_are_rounded_to_the_safe_side",),
    ),
    Fault(
        "a-sum-forgets-that-one-part-was-simulated",
        "core/guarantee/value.py",
        "simulated=any(g.simulated for g in guarantees),",
        "simulated=all(g.simulated for g in guarantees),",
        ("tests/core/test_guarantee.py::test_no_privacy_and_simulation_are_contagious",),
    ),
    Fault(
        "noise-scale-is-30-percent-short",
        "core/randomness/source.py",
        "return at_least(needed)",
        "return at_least(needed * 7 / 10)",
        ("tests/core/randomness/test_source.py::test_scales_round_up",),
    ),
    Fault(
        "secure-noise-is-30-percent-short",
        "core/randomness/source.py",
        "add_laplace(value, scale, words) for",
        "add_laplace(value, 0.7 * scale, words) for",
        ("tests/core/randomness/test_source.py::test_laplace_has_its_scale_and_one_30_percent_off_is_rejected",),
    ),
    Fault(
        "equal-uniforms-are-not-compared-further",
        "core/randomness/exponential.py",
        "while rival == last:",
        "while False:",
        ("tests/core/randomness/test_exponential.py::test_the_mass_of_every_outcome_is_that_of_the_proof",),
    ),
    Fault(
        "noise-is-rounded-before-its-bits-decide",
        "core/randomness/exponential.py",
        "while (value := function(n, bits)) != function(n + 1, bits):",
        "while (value := function(n, bits)) != function(n, bits):",
        ("tests/core/randomness/test_exponential.py::test_undecided_roundings_get_more_bits",),
    ),
    Fault(
        "an-answer-is-kept-once-too-often",
        "core/randomness/response.py",
        "moved = drawn >= keep_below",
        "moved = drawn > keep_below",
        (
            "tests/core/randomness/test_response.py::test_the_edges_of_the_thresholds",
            "tests/core/randomness/test_response.py::test_the_kernel_owns_exactly_the_shares_of_the_proof",
        ),
    ),
    Fault(
        "a-scale-is-rounded-to-the-nearest-float",
        "core/exact.py",
        "    while Fraction(result) < value:\n        result = math.nextafter(result, math.inf)\n    return result",
        "    return result",
        ("tests/core/test_exact.py::test_at_least_is_the_smallest_float_not_below",),
    ),
    Fault(
        "a-confidence-bound-is-off-by-one",
        "audit/events.py",
        "n - np.maximum(k, 1) + 1, alpha)",
        "n - np.maximum(k, 1) + 2, alpha)",
        ("tests/audit/test_binomial.py",),
    ),
    Fault(
        "a-result-drops-its-mark",
        "core/result.py",
        'str(self.guarantee), "mark": self.mark}',
        'str(self.guarantee), "mark": None}',
        ("tests/report/test_page.py::test_the_mark_is_on_every_form_of_a_result",),
    ),
    Fault(
        "private-files-can-be-read-by-others",
        "core/files.py",
        "0o600 if private else 0o666",
        "0o644 if private else 0o666",
        ("tests/cli/test_timing.py::test_audit",),
    ),
    # ---- data and databases ----------------------------------------------------------------------------------------
    Fault(
        "the-fingerprint-depends-on-the-order-of-rows",
        "data/digest.py",
        "ordered = _sorted(frame",
        "ordered = (frame",
        ("tests/data/test_table.py::test_fingerprint_forgets_the_order_of_rows_and_columns",),
    ),
    Fault(
        "posts-of-one-moment-change-places",
        "data/events.py",
        'frame = frame.sort("time", maintain_order=True)',
        'frame = frame.reverse().sort("time", maintain_order=True)',
        ("tests/data/test_events.py::test_sorted_by_time_and_stable_in_ties",),
    ),
    Fault(
        "a-memory-limit-is-ignored",
        "data/engines.py",
        '            connection.con.execute("SET memory_limit = ?", [memory])',
        "            pass",
        (
            "tests/data/test_engines.py::test_the_disk_is_left_as_it_was_and_memory_is_limited",
            "tests/data/test_engines.py::test_what_cannot_be_opened_is_named",
        ),
    ),
    Fault(
        "a-new-ledger-can-be-read-by-others",
        "storage/transactions.py",
        "os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600",
        "os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644",
        ("tests/ledger/test_ledger_open.py",),
    ),
    # ---- trust -----------------------------------------------------------------------------------------------------
    Fault(
        "an-account-can-be-overdrawn",
        "ledger/refusals.py",
        "if debit > remaining:",
        "if debit > spent + remaining:",
        ("tests/ledger/test_ledger_spend.py::test_ten_tenths_exhaust_one_exactly",),
    ),
    Fault(
        "a-broken-chain-of-entries-is-not-noticed",
        "ledger/verify.py",
        "continues = entry.previous == digest",
        "continues = entry.previous is not None",
        ("tests/ledger/test_ledger_verify.py::test_a_changed_entry_with_a_digest_that_fits",),
    ),
    Fault(
        "exact-loss-looks-one-way-only",
        "audit/exact.py",
        'sides = [(a, b, "p over q")] if one_sided else',
        'sides = [(a, b, "p over q")] if outcome is not None else',
        ("tests/audit/test_exact.py",),
    ),
    Fault(
        "the-certificate-uses-the-wrong-bound",
        "audit/bound.py",
        "high = float(upper_confidence(*counts[1], alpha / 2))",
        "high = float(lower_confidence(*counts[1], alpha / 2))",
        ("tests/audit/test_bound.py",),
    ),
    Fault(
        "text-is-not-escaped",
        "report/page.py",
        "return html.escape(text, quote=False)",
        "return text",
        ("tests/report/test_page.py::test_nothing_gets_through_unescaped",),
    ),
    # ---- the five modules ------------------------------------------------------------------------------------------
    Fault(
        "the-debit-comes-after-the-draw",
        "release/mechanism.py",
        """        if account is not None:
            account.spend(guarantee, purpose=f"reviewers' mean {weight}", data=reviews, randomness=randomness)
        counts, half_width = mechanism.release(means, randomness)[0], mechanism.noise.half_width(level)
""",
        """        counts, half_width = mechanism.release(means, randomness)[0], mechanism.noise.half_width(level)
        if account is not None:
            account.spend(guarantee, purpose=f"reviewers' mean {weight}", data=reviews, randomness=randomness)
""",
        ("tests/release/test_publish.py::test_the_debit_stands_when_the_noise_is_drawn",),
    ),
    Fault(
        "means-are-added-in-the-order-of-rows",
        "release/public.py",
        "order = np.lexsort((weights, reviewer))",
        "order = np.argsort(reviewer, kind='stable')",
        ("tests/release/test_publish.py::test_equal_data_in_another_row_order_give_equal_bits",),
    ),
    Fault(
        "every-group-gets-noise-of-its-own",
        "release/ask.py",
        "    return private + MaxNormNoise(private.size, epsilon).draw(randomness, count)",
        "    parts = [MaxNormNoise(at.size, epsilon).draw(randomness, count) for _, at in groups]\n"
        "    return private + np.concatenate(parts, axis=1)",
        (
            "tests/release/test_adversary.py::test_sound_claims_pass_and_broken_ones_are_caught_with_the_registered_samples",
        ),
    ),
    Fault(
        "a-group-gets-the-means-of-others",
        "release/ask.py",
        "    labels = _labels(groups, ids.to_list())[by_load]",
        "    labels = _labels(groups, ids.to_list())",
        ("tests/release/test_ask.py::test_groups_are_counted_by_their_own_members",),
    ),
    Fault(
        "joint-intervals-are-those-of-a-single-count",
        "core/randomness/max_norm.py",
        "np.exp(mass + self.size * (np.minimum",
        "np.exp(mass + (np.minimum",
        ("tests/core/randomness/test_max_norm.py::test_variance_and_half_width_follow_from_the_law",),
    ),
    Fault(
        "the-radius-of-noise-ignores-how-many-counts-there-are",
        "core/randomness/max_norm.py",
        "return int((2 * radius + 1) ** self.degree)",
        "return int((2 * radius + 1) ** min(self.degree, 2))",
        ("tests/core/randomness/test_max_norm.py::test_certified_bounds_are_bounds_and_tight",),
    ),
    Fault(
        "the-estimate-believes-in-half-of-the-noise",
        "release/estimate.py",
        "squares, variance = (noise**2).sum(axis=-1), np.maximum(self._node_variance, 1e-9)",
        "squares, variance = (noise**2).sum(axis=-1), np.maximum(self._node_variance / 4, 1e-9)",
        ("tests/release/test_publish.py::test_annealing_leads_to_the_exact_posterior",),
    ),
    Fault(
        "strict-and-lenient-are-exchanged",
        "release/weights.py",
        "(k * score - sums[paper])",
        "(sums[paper] - k * score)",
        ("tests/release/test_weights.py::test_miscalibration_is_the_score_minus_the_mean_of_the_others",),
    ),
    Fault(
        "delays-are-too-short",
        "timing/delays.py",
        "width = math.ceil(reach / margin)",
        "width = math.ceil(reach / margin * 7 / 10)",
        ("tests/timing/test_delays.py::test_lemma_a1_holds_exactly_and_on_a_grid_and_a_short_delay_fails",),
    ),
    Fault(
        "replies-appear-before-what-they-answer",
        "timing/post.py",
        "behind_parents(own, parent) if self.causal else own",
        "own",
        ("tests/timing/test_batches_and_post.py::test_no_reply_before_its_parent",),
    ),
    Fault(
        "delayed-posts-are-not-entered-in-the-ledger",
        "timing/post.py",
        "    if account is not None:\n",
        "    if account is not None and not source.is_secure:\n",
        ("tests/timing/test_outputs.py::test_posting_debits_the_account_before_it_draws",),
    ),
    Fault(
        "intervals-forget-what-is-unknown-about-reviewers",
        "calibration/mixed.py",
        "np.sqrt(1 / equations.diagonal + equations.spread(",
        "np.sqrt(1 / equations.diagonal + 0 * equations.spread(",
        ("tests/calibration/test_mixed.py::test_deviations_are_the_textbooks",),
    ),
    Fault(
        "the-worse-paper-is-favored",
        "calibration/pair.py",
        "int(first > second)",
        "int(first < second)",
        ("tests/calibration/test_pair.py::test_strategies_reach_what_they_promise",),
    ),
    Fault(
        "a-tail-leaves-out-the-value-itself",
        "rankings/laws.py",
        "self.chances[first:].sum()",
        "self.chances[first + 1 :].sum()",
        ("tests/rankings/test_nulls.py::test_critical_values_are_the_smallest_within_the_level",),
    ),
    Fault(
        "the-sensitivity-of-pairs-is-half",
        "rankings/central.py",
        "math.isqrt(4 * self.pairs * 2**80)",
        "math.isqrt(self.pairs * 2**80)",
        ("tests/rankings/test_adversary.py::test_no_neighbors_lose_more_than_epsilon",),
    ),
    Fault(
        "the-first-class-is-not-normalized",
        "truth/kernels.py",
        "        for z in range(k):\n            out[j * k + z] /= normalizer",
        "        for z in range(1, k):\n            out[j * k + z] /= normalizer",
        ("tests/truth/test_kernels.py::test_an_e_step_is_that_of_plain_numpy",),
    ),
    Fault(
        "a-person-spends-epsilon-on-every-answer",
        "truth/randomize.py",
        "used = form(budget / answers_each, class_list)",
        "used = form(budget, class_list)",
        ("tests/truth/test_randomize.py::test_per_person_sends_the_few_that_the_budget_allows",),
    ),
    Fault(
        "agreement-is-read-off-the-reports",
        "truth/coefficients.py",
        "return 2 * _classes_shown(channel) * channel.other - channel.k * channel.other**2",
        "return 0.0 * channel.other",
        ("tests/truth/test_agreement.py::test_sums_over_pairs_are_unbiased_exactly",),
    ),
    Fault(
        "intervals-forget-that-people-differ",
        "truth/coefficients.py",
        "errors[name] = math.hypot(errors[name], math.sqrt(max(spread.variance, 0.0)))",
        "errors[name] = math.hypot(errors[name], 0.0)",
        ("tests/truth/test_agreement.py::test_people_who_differ_widen_the_interval",),
    ),
    Fault(
        "abilities-trust-wrong-labels",
        "truth/gold.py",
        "(1 - share) / math.sqrt(3)",
        "0.0",
        ("tests/truth/test_gold.py::test_abilities_have_an_interval_with_gold_tasks_alone",),
    ),
    Fault(
        "several-answers-of-one-person-count-as-agreement",
        "truth/pairs.py",
        'x=pl.col("u") * (pl.col("v") - pl.col("u"))',
        'x=pl.col("u") * pl.col("v")',
        ("tests/truth/test_agreement.py::test_every_engine_agrees_with_all_pairs_written_out",),
    ),
    Fault(
        "published-labels-are-sorted-as-the-source",
        "truth/randomize.py",
        'renamed.sort("task", "worker", label)',
        "renamed",
        ("tests/truth/test_publish.py::test_nothing_of_the_source_but_tasks_and_classes_gets_out",),
    ),
    Fault(
        "an-undefined-agreement-loses-the-labels",
        "truth/publish.py",
        "except BadInput as error:  # of",
        "except ZeroDivisionError as error:  # of",
        ("tests/truth/test_publish.py::test_labels_without_a_defined_agreement_are_published_all_the_same",),
    ),
    # ---- studies, services, surfaces -------------------------------------------------------------------------------
    Fault(
        "data-may-change-during-a-study",
        "study/folder.py",
        'journal["data"].setdefault(name, digest) != digest',
        'journal["data"].setdefault(name, digest) is None',
        ("tests/study/test_study.py::test_data_that_change_between_check_and_run_or_while_read_are_refused",),
    ),
    Fault(
        "a-withdrawn-token-still-opens",
        "web/common/tokens.py",
        ' or row.state != "good"',
        "",
        ("tests/web/common/test_ground.py::test_a_token_is_known_by_its_hash_alone",),
    ),
    Fault(
        "a-key-answers-for-another-body",
        "web/common/records.py",
        "if not hmac.compare_digest(body, self.body):",
        "if not body:",
        ("tests/web/common/test_ground.py::test_the_same_key_with_another_body_is_refused",),
    ),
    Fault(
        "the-idempotency-key-is-ignored",
        "web/gateway/intake.py",
        "        if known is not None:\n            self.check_body",
        "        if known is key:\n            self.check_body",
        ("tests/web/gateway/test_protocol.py::test_the_same_request_again_changes_nothing",),
    ),
    Fault(
        "replies-do-not-wait-for-their-parents",
        "web/gateway/memory.py",
        "        if post.waits or post.id not in self.held:",
        "        if post.id not in self.held:",
        ("tests/web/gateway/test_protocol.py::test_replies_come_after_their_parents",),
    ),
    Fault(
        "the-clock-is-followed-at-once",
        "web/gateway/watch.py",
        "        moment += max(-most, min(most, apart))",
        "        moment += apart",
        (
            "tests/web/gateway/test_clock.py::test_a_clock_that_gains_less_than_the_tolerance_at_every_reading_releases_nothing_early",
        ),
    ),
    Fault(
        "the-clock-is-believed-after-a-restart",
        "web/gateway/watch.py",
        "            if not (row.sure and self._agrees(moment)):",
        "            if False:",
        ("tests/web/gateway/test_clock.py::test_a_clock_days_ahead_after_a_reboot_releases_nothing_early",),
    ),
    Fault(
        "a-receiver-may-be-inside",
        "web/gateway/receivers.py",
        "    routed = ip.is_global and not ip.is_multicast and not ip.is_reserved",
        "    routed = True",
        ("tests/web/gateway/test_hooks.py::test_addresses_inside_are_refused_however_they_are_written",),
    ),
    Fault(
        "a-receivers-name-is-resolved-twice",
        "web/gateway/receivers.py",
        "                connection.connect(place)  # the address that was checked, not the name",
        "                connection.connect((socket.gethostbyname(host), port)); socket.getaddrinfo(host, port)",
        ("tests/web/gateway/test_hooks.py::test_the_connection_goes_to_the_address_that_was_checked",),
    ),
    Fault(
        "answers-do-not-use-up-the-budget",
        "web/collect/store.py",
        "            left[digest] -= 1\n",
        "",
        ("tests/web/collect/test_service.py::test_the_budget_cannot_be_exceeded_one_after_another",),
    ),
    Fault(
        "forms-need-no-token",
        "web/console/pages/request.py",
        'if not hmac.compare_digest(texts.pop("form_token", "").encode(), request.form_token.encode()):',
        'if texts.pop("form_token", "") is None:',
        ("tests/web/console/test_hostile.py::test_every_form_needs_its_token",),
    ),
    Fault(
        "overspending-looks-like-a-typing-error",
        "cli/base.py",
        '"BudgetExceeded"): BUDGET_EXCEEDED',
        '"BudgetExceeded"): BAD_INPUT',
        ("tests/cli/test_release.py",),
    ),
    Fault(
        "a-reproduction-reports-the-smallest-error",
        "papers/reproduce/release_theorems.py",
        "worst = max(worst, float(",
        "worst = min(worst, float(",
        ("tests/papers/reproduce/test_all.py::test_projection_on_a_convex_set_never_hurts",),
    ),
    Fault(
        "algorithm-4-is-printed-with-another-threshold",
        "papers/rankings/printed.py",
        "(1 + (8 * items / epsilon) ** 2)",
        "(1 + 8 * items / epsilon)",
        ("tests/papers/rankings/test_errata.py::test_algorithm_4_thresholds",),
    ),
    Fault(
        "the-demo-overwrites-somebody-elses-folder",
        "study/demo.py",
        "not (target.is_dir() and (marker.exists() or not any(target.iterdir())))",
        "not target.is_dir()",
        ("tests/study/test_demo.py::test_somebody_elses_folder_and_budget_are_left_alone",),
    ),
)
