"""What Tools/steps and Tools/run-tests know of processes."""
import ctypes
import os
import signal
import time

ENDINGS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


def adopt():
    """Makes the processes that their parents leave behind come to this one, whatever session they are in."""
    if ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0) != 0:
        raise SystemExit("This needs PR_SET_CHILD_SUBREAPER of Linux.")


def clock(duration):
    """Minutes and seconds."""
    return f"{int(duration) // 60:d}:{int(duration) % 60:02d}"


def descendants():
    """The processes below this one that have not ended, with those that were left by their parents."""
    parents = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # Behind the name, which may have any characters: state, parent.
                state, parent = file.read().rpartition(b") ")[2].split()[:2]
        except OSError:
            continue
        if state not in b"ZX":
            parents[int(name)] = int(parent)
    below = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    return below - {os.getpid()}


def command_of(process):
    """The words that a process was started with."""
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            return file.read(400).replace(b"\0", b" ").decode(errors="replace").replace("\n", " ").strip()
    except OSError:
        return ""


def send(processes, number):
    """Sends a signal to processes, as far as they are there."""
    for process in processes:
        try:
            os.kill(process, number)
        except OSError:
            pass


def start(command, output, environment=None):
    """Starts a command in a session of its own, which reads nothing and writes to a file; answers its number."""
    return os.posix_spawnp(
        command[0], command, os.environ if environment is None else environment, setsid=True, setsigmask=[],
        setsigdef=ENDINGS | {signal.SIGPIPE},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
        ])


def ended():
    """Takes note of processes that have ended; answers their numbers and exit codes."""
    codes = {}
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return codes
        if process == 0:
            return codes
        codes[process] = os.waitstatus_to_exitcode(status)


def kill_all(patience):
    """Kills whatever is below this process, until nothing is, or for so many seconds."""
    end = time.monotonic() + patience
    while (left := descendants()) and time.monotonic() < end:
        # Stopped first: none has the time to begin another, or to say that its child was killed.
        send(left, signal.SIGSTOP)
        send(descendants() | left, signal.SIGKILL)
        time.sleep(0.02)
        ended()
