#!/bin/sh
# Prints the interpreter for .venv: the newest CPython from 3.11 on that runs and can make an environment. A shim of pyenv
# may not run, and Debian may lack python3-venv.
for name in python3.13 python3.12 python3.11 python3.14 python3.15 python3 python; do  # the tested versions come first
    if "$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        command -v "$name"
        exit 0
    fi
done
echo "CPython 3.11 or newer with the venv module is required; install it, or set PYTHON to its path" >&2
exit 1
