#!/bin/sh
# Run a command of the gateway with the secrets that are files here.
set -eu
PGPASSWORD=$(cat /run/secrets/postgres_password)
PEERVEIL_KEY=$(cat /run/secrets/key)
export PGPASSWORD PEERVEIL_KEY
exec /opt/peerveil/bin/peerveil gateway "$@"
