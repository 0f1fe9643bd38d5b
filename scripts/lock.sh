#!/usr/bin/env bash
# Write the lock files anew: versions and hashes, no addresses. Run it after changing a dependency.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=.venv/bin/uv
common=(--universal --python-version 3.11 --generate-hashes --no-header --quiet "$@")
"$uv" pip compile "${common[@]}" requirements/bootstrap.in -o requirements/bootstrap.lock
"$uv" pip compile "${common[@]}" pyproject.toml -o requirements/use.lock
extras=(--extra services --extra duckdb --extra postgresql)
"$uv" pip compile "${common[@]}" pyproject.toml --group dev "${extras[@]}" -c requirements/use.lock -o requirements/dev.lock
"$uv" pip compile "${common[@]}" pyproject.toml --group dev "${extras[@]}" --extra spark -c requirements/dev.lock -o requirements/slow.lock
"$uv" pip compile "${common[@]}" pyproject.toml --group bench "${extras[@]}" -c requirements/use.lock -o requirements/bench.lock
"$uv" pip compile "${common[@]}" --no-deps requirements/bench-peers.in -o requirements/bench-peers.lock
if grep -nE 'https?://|index-url|find-links' requirements/*.lock; then
  echo "an address got into a lock file" >&2
  exit 1
fi
