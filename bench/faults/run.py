"""Run the processes of a crawl one after the other, and judge it."""

import asyncio
import pickle
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE
from pathlib import Path

from bench.faults.crawl import PLAN
from bench.faults.judge import Judged, judge
from bench.faults.log import Log, read_events
from bench.faults.plan import Plan
from bench.faults.servers import Servers

#: Seconds after which a process of a crawl counts as hung. Most take 20 seconds at most.
PATIENCE = 120.0
# Maximum number of findings of a crawl to print.
_SHOWN = 6


def crawl(plan: Plan, middleware: str = "ours", *, verbose: bool = False) -> Judged:
    """Run a crawl, and judge it.

    :param middleware: a key of `MIDDLEWARES`.
    :param verbose: whether to print the plan, all events and the standard error.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = asyncio.run(_log(plan, middleware, Path(folder)))
    if verbose:
        print(*(f"{name}: {value}" for name, value in plan._asdict().items()), sep="\n")
        for event in log.events:
            print(f"{event.time - log.events[0].time:8.3f}  {event}")
        print(log.errors, file=sys.stderr)
    return judge(plan, log)


def print_findings(judged: Judged, command: str) -> Judged:
    """Print the findings of a crawl, and the command that runs it alone."""
    if judged.findings:
        print(f"{len(judged.findings)} findings (again: {command} --seed {judged.seed})")
        for kind, text in judged.findings[:_SHOWN]:
            print(f"  {kind}: {text}", flush=True)
    return judged


async def _log(plan: Plan, middleware: str, folder: Path) -> Log:
    """Crawl to the end, and return the log."""
    servers = Servers(plan)
    serving = asyncio.create_task(servers.serve())
    (folder / PLAN).write_bytes(pickle.dumps((plan, middleware, servers.addresses)))
    errors = folder / "errors"
    # A setting may close the first process early, so there may be one more than signals.
    for number in range(len(plan.interruptions) + 2):
        command = [sys.executable, "-X", "faulthandler", "-m", "bench.faults.crawl"]
        command += [str(folder), str(number)]
        code = await _run(command, errors, plan.interruptions[number : number + 1])
        if code == -signal.SIGKILL:
            servers.note("killed", process=number)
        events = read_events(folder)
        is_finished = any(one.kind == "closed" and one.detail == "finished" for one in events)
        if is_finished or code not in (0, -signal.SIGKILL) or not plan.settings["JOBDIR"]:
            break
    serving.cancel()
    events = sorted([*events, *servers.events], key=lambda event: event.time)
    return Log(events, errors.read_text(encoding="utf-8", errors="replace"), code)


async def _run(
    command: list[str], errors: Path, interruption: tuple[tuple[float, str], ...]
) -> int:
    """Run a process, and return its exit code.

    :param interruption: seconds after which the process gets a signal, and which one.
    """
    with errors.open("ab") as file:
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=file)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            await process.stdout.readline()  # when the spider is open
            for seconds, sign in interruption:
                try:
                    await asyncio.wait_for(process.stdout.read(), seconds)  # until it is closed
                except TimeoutError:
                    process.send_signal(signal.Signals[sign])
            return await process.wait()
    except TimeoutError:
        process.send_signal(signal.SIGABRT)  # makes it print the stacks of its threads
        return await process.wait()
