#!/bin/sh
# Runs a command of the environment of `make check`, which is made first where it is not there yet.
make --no-print-directory --silent .venv/.ready && command=$1 && shift && exec ".venv/bin/$command" "$@"
