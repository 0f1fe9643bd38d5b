#!/usr/bin/env bash
# Make .venv hold what a lock file names: `scripts/setup.sh use|dev|slow|bench`. Called by make.
set -euo pipefail
cd "$(dirname "$0")/.."
lock=requirements/$1.lock
python=${PYTHON:-python3}

"$python" - <<'PY' || { echo "peerveil needs Python 3.11 or later: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
import sys
sys.exit(sys.version_info < (3, 11))
PY
if [ ! -x .venv/bin/python ]; then
  echo "creating .venv"
  "$python" -m venv .venv || { echo "could not create .venv (on Debian: apt-get install python3-venv)" >&2; exit 1; }
fi
echo "installing $lock"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.lock
# uv is several times faster; pip knows this machine's own settings (a mirror, a certificate) and is the second try
.venv/bin/uv pip install --quiet --compile-bytecode --python .venv/bin/python --require-hashes -r "$lock" ||
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock"
if [ "$1" = bench ]; then # crowd-kit without the language-model library that it names
  peers=(--no-deps --require-hashes -r requirements/bench-peers.lock)
  .venv/bin/uv pip install --quiet --python .venv/bin/python "${peers[@]}" ||
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "${peers[@]}"
fi
.venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation -e . ||
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .

case $1 in dev | slow) ;; *) exit 0 ;; esac
# what pip cannot give: a PostgreSQL server, a browser for the pages' tests, and Java for Spark's slow ones
install_packages() {
  local what=$1
  shift
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing $what for the tests"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -qq -y --no-install-recommends "$@"; } >/dev/null ||
      echo "$what could not be installed: its tests will be skipped (and fail in CI)" >&2
  else
    echo "no $what found, and this user may not install it: its tests will be skipped" >&2
  fi
}
if [ "$1" = slow ] && ! command -v java >/dev/null; then
  install_packages Java default-jre-headless
fi
if ! command -v initdb >/dev/null && ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
  install_packages "a PostgreSQL server" postgresql
fi
if ! command -v chromium >/dev/null; then
  install_packages "Chromium" chromium
fi
