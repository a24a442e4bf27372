#!/bin/sh
# Prints the interpreter to build .venv with: the newest CPython from 3.11 on that really runs and can make an
# environment (a pyenv shim may stand for nothing, Debian may lack python3-venv). Nothing else belongs here.
for name in python3.13 python3.12 python3.11 python3.14 python3.15 python3 python; do  # those we are tested on first
    if "$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        command -v "$name"
        exit 0
    fi
done
echo "No CPython 3.11 or newer with the venv module was found: install one, or give its path as PYTHON=..." >&2
exit 1
