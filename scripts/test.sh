#!/usr/bin/env bash
# Everything that `make test` checks, each step named and timed. Stops at the first that fails.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${PYTHON_BIN:-.venv/bin}
start=$SECONDS
step() {
  local name=$1 began=$SECONDS
  shift
  echo "== $name"
  "$@" || { echo "== $name failed" >&2; return 1; }
  echo "== $name: $((SECONDS - began)) s"
}
step "formatting" "$bin/ruff" format --check --quiet .
step "lint" "$bin/ruff" check --quiet .
step "words" "$bin/python" scripts/plain_english.py
step "types" "$bin/mypy" &
types=$!
step "layers" "$bin/lint-imports" --no-cache
step "docs" "$bin/sphinx-build" --fail-on-warning --keep-going --quiet -b html docs docs/_build/html
wait $types
step "tests and doctests" "$bin/pytest" -n "${WORKERS:-auto}" -m "not slow" --doctest-modules tests src
echo "== all of it: $((SECONDS - start)) s"
