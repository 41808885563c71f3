# SPDX-License-Identifier: Apache-2.0
"""The command line: the table of commands, and the only place that prints errors.

A command is a module with a click command named `command`. It is imported only
when it runs, so that `pagetape --help` stays fast. A command raises its errors; `main`
turns them into one line on stderr and an exit status:

    0  success         130  interrupted
    1  failure         141  the reader of the output has gone
    2  bad usage       143  terminated by SIGTERM (129: SIGHUP)
"""

import atexit
import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click

from pagetape import answer, did_you_mean, libraries

# name: (module in pagetape.commands, help)
COMMANDS = {
    "record": ("record", "Record this machine's page allocator into a tape."),
    "import": ("import_dat", "Turn a trace.dat of trace-cmd, or an unfinished tape, into a tape."),
    "info": ("info", "Show the contents of a tape: events, losses, machine, snapshots."),
    "diagnose": ("diagnose", "Show the findings that matter on a tape, and the next command."),
    "explain": ("explain", "Explain kernel messages about memory: dmesg, a journal, a mail."),
    "gfp": ("gfp", "List the flags of a gfp mask, by era of kernels."),
    "replay": ("replay", "Play a tape through the allocator model."),
    "validate": ("validate", "Measure how exactly the model predicts the kernel's decisions."),
    "policies": ("policies", "List the policies of the model."),
    "kernels": ("kernels", "List the kernel rows: releases, changes, and how sure they are."),
    "compare": ("compare", "Compare tapes side by side, with the model's error as the error bar."),
    "ab": ("ab", "Record this machine under two values of a setting, beside the prediction."),
    "paper": ("paper", "Print a paper's tables: published, recorded, modelled."),
    "sweep": ("sweep", "Replay every tape under every policy, on all cores."),
    "report": ("report", "Run a report on a tape, or list the reports."),
    "html": ("html", "Write one self-contained HTML page about one or more tapes."),
    "sql": ("sql", "Query one or more tapes in SQL (DuckDB)."),
    "archive": ("archive", "Put tapes into the archive of a fleet: a directory or a bucket."),
    "ship": ("ship", "Send the finished tapes of a directory to an archive."),
    "pull": ("pull", "Copy finished tapes from another machine, over ssh."),
    "prune": ("prune", "Remove the oldest tapes of an archive."),
    "verify": ("verify", "Check the tapes of an archive."),
    "compact": ("compact", "Bring the index of an archive up to its tapes."),
    "export": ("export", "Convert a tape for other tools: Perfetto, LLFree."),
    "schema": ("schema", "Describe the tables and columns of a tape."),
    "load": ("load", "Run a workload for a recording, or list the workloads."),
    "top": ("top", "Show the live activity of this machine's page allocator."),
    "demo": ("demo", "Copy a bundled tape here, to try the other commands."),
    "doctor": ("doctor", "Check what this machine can record."),
    "install-service": ("install_service", "Install a permanent recorder as a systemd service."),
}

# Arrow's own pool gives each batch back to the kernel, which clears the pages of the next one. Not
# for commands that start programs of others, which would inherit the variable.
_IN_HEAP = {"compare", "diagnose", "html", "replay", "report", "sql", "sweep", "validate"}


class Commands(click.Group):
    """The commands of COMMANDS; each is imported when it runs."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name in _IN_HEAP:
            os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
        module, _ = COMMANDS[cmd_name]
        command = import_module(f"pagetape.commands.{module}").command
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click's own main() would exit with status 1
            return _reader_gone()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(f"no such command '{args[0]}'{did_you_mean.hint(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, doc) for name, (_, doc) in COMMANDS.items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pagetape", message="pagetape %(version)s")
def pagetape() -> None:
    """Record, replay and query the Linux page allocator.

    A tape holds the allocator's recorded events. Record a tape here or import a
    trace.dat, replay it under another policy, and run the same reports on both.

    \b
    Example:
      pagetape record -o base.tape -- make -j8
      pagetape replay base.tape --policy nofragment -o whatif.tape
      pagetape compare base.tape whatif.tape
    """


def _print_error(message: str) -> None:
    answer.say_line(f"pagetape: {' '.join(message.split())}", err=True)


def _usage(error: click.UsageError) -> str:
    message = did_you_mean.added(error.format_message().rstrip("."))
    where = error.ctx.command_path if error.ctx else "pagetape"
    return f"{message[:1].lower()}{message[1:]} (see '{where} --help')"


def _os_error(error: OSError) -> str:
    message = error.strerror or str(error)
    if not error.filename or isinstance(error.filename, int):  # a number is a descriptor
        return message
    return f"{os.fspath(error.filename)!s}: {message}"


def _reader_gone() -> int:
    """Discard the output that the interpreter flushes at exit; returns the exit status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def run(args: Sequence[str] | None = None, *, of_process: bool = False) -> int:
    """Run one command line (default: that of the process); returns the exit status.

    `of_process`: the command may become another program in the place of this one.
    """
    try:
        status = pagetape.main(args, "pagetape", standalone_mode=False, obj=of_process)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as e:  # a group without a command
        answer.say(e.format_message())
        return 0
    except click.UsageError as e:
        _print_error(_usage(e))
        return 2
    except click.ClickException as e:
        _print_error(did_you_mean.added(e.format_message()))
        return 1
    except (click.Abort, KeyboardInterrupt):
        return 130
    except SystemExit as e:  # _end(): the interpreter's own end would meet Arrow's threads
        return e.code if isinstance(e.code, int) else 1
    except BrokenPipeError:
        return _reader_gone()
    except OSError as e:
        _print_error(did_you_mean.added(_os_error(e)))
        return 1
    except ImportError as e:
        if (message := libraries.missing(e)) is None:
            raise
        _print_error(message)
        return 1
    except MemoryError:
        _print_error("out of memory")
        return 1
    return status if isinstance(status, int) else 0


def _end(number: int, _frame: object) -> None:
    """End as an exception does, which removes temporary files; a second signal ends at once."""
    signal.signal(number, signal.SIG_DFL)
    raise SystemExit(128 + number)


def _leave(status: int) -> NoReturn:
    """End the process without the end of the interpreter.

    Arrow's threads go on after a query that needed no more rows. One that releases a Python object
    while the interpreter ends would abort the process (PyBuffer, Arrow 26).
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # run() has said so, or the stream is closed
            stream.flush()
    os._exit(status)


def main() -> None:
    """The entry point of the `pagetape` script."""
    gc.set_threshold(100_000, 20)  # a tenth of a short command went into looks at its modules
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)
    _leave(run(of_process=True))
