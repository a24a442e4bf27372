"""Call a function of a benchmark in a process of its own, with memory and a reactor of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any


def call(function: str, *arguments: Any, prefix: Sequence[str] = ()) -> tuple[Any, str]:  # noqa: ANN401 - JSON
    """Call a function in a new process.

    :param function: its dotted path. Arguments and result must be JSON.
    :param prefix: a command that runs the interpreter, such as Valgrind.
    :returns: the result, and what the process wrote to standard error.
    """
    # Read bytecode from disk; otherwise each process would compile everything that it imports.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "bench.processes", function],
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{function} ended with exit code {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout), done.stderr


if __name__ == "__main__":
    module, _, name = sys.argv[1].rpartition(".")
    print(json.dumps(getattr(import_module(module), name)(*json.load(sys.stdin))))
