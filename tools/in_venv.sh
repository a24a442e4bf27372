#!/bin/sh
# Runs a command in the environment of `make check`, and creates the environment if it does not exist.
make --no-print-directory --silent .venv/.ready && command=$1 && shift && exec ".venv/bin/$command" "$@"
