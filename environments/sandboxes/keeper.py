"""Runs inside the sandbox: takes requests on standard input and answers on standard output.

A frame is two lengths (4 bytes each, big-endian), a JSON object and bytes. The host hands this text to `python3 -c`, so
it imports the standard library alone. It guards itself against being read or traced by what it starts; being killed is
no loss but the sandbox's, and the host believes no frame further than its lengths and types.
"""

import ctypes
import json
import os
import resource
import select
import signal
import stat
import struct
import sys
import time

LIMITS: dict = {}
PR_SET_DUMPABLE = 4
LINGER_S = 0.05


def serve() -> None:
    LIMITS.update(json.loads(sys.argv[1]))
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nothing = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1):
        os.dup2(nothing, number, inheritable=False)
    send(replies, {"ready": True}, b"")
    while lengths := requests.read(8):
        head, body = struct.unpack("!II", lengths)
        asked = json.loads(requests.read(head))
        content = requests.read(body)
        verb = asked.pop("verb")
        try:
            send(replies, *VERBS[verb](content, **asked))
        except (OSError, ValueError) as error:
            send(replies, {"error": f"{type(error).__name__}: {error}"[:500]}, b"")


def send(replies, head: dict, body: bytes) -> None:
    packed = json.dumps(head).encode()
    replies.write(struct.pack("!II", len(packed), len(body)) + packed + body)
    replies.flush()


def run(content: bytes, argv, env, cwd, timeout_s, most_output) -> tuple:
    stdin, out, err = os.pipe(), os.pipe(), os.pipe()
    try:
        child = os.fork()
    except OSError as error:
        for handle in (*stdin, *out, *err):
            os.close(handle)
        return {"status": 126, "out": 0, "timed_out": False, "cut": False}, f"no process is left: {error}".encode()
    if child == 0:
        become(argv, env, cwd, stdin[0], out[1], err[1])
    for handle in (stdin[0], out[1], err[1]):
        os.close(handle)
    printed, left_out, timed_out = follow(child, content, stdin[1], (out[0], err[0]), timeout_s, most_output)
    if timed_out:
        end_all()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = status if status >= 0 else 128 - status
    head = {
        "status": status,
        "out": len(printed[0]),
        "timed_out": timed_out,
        "cut": any(left_out),
        "left_out": left_out[0],
    }
    return head, b"".join(printed)


def follow(child: int, content: bytes, stdin: int, streams: tuple, timeout_s: float, most_output: int) -> tuple:
    """Feed and read a process until its end, and a moment longer: what it started may hold its streams for ever.

    Of each stream the beginning and the end are kept, and how many bytes are left out between them.
    """
    kept = {stream: bytearray() for stream in streams}
    left_out = dict.fromkeys(streams, 0)
    ended = os.pidfd_open(child)
    opened = {ended, stdin, *streams}
    poll = select.poll()
    for handle in (ended, *streams):
        poll.register(handle, select.POLLIN)
    poll.register(stdin, select.POLLOUT)
    os.set_blocking(stdin, False)
    deadline = time.monotonic() + timeout_s

    def close(handle: int) -> None:
        poll.unregister(handle)
        os.close(handle)
        opened.discard(handle)

    while ended in opened or opened.intersection(streams):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        for handle, _ in poll.poll(left * 1000):
            if handle == ended:
                close(ended)
                deadline = time.monotonic() + LINGER_S
            elif handle == stdin:
                try:
                    content = content[os.write(stdin, content[:65536]) :] if content else b""
                except BrokenPipeError:
                    content = b""
                if not content:
                    close(stdin)
            elif chunk := os.read(handle, 65536):
                kept[handle] += chunk
                too_many = len(kept[handle]) - most_output
                if too_many > 0:
                    del kept[handle][most_output // 2 : most_output // 2 + too_many]
                    left_out[handle] += too_many
            else:
                close(handle)
    timed_out = ended in opened
    for handle in list(opened):
        close(handle)
    return [bytes(kept[stream]) for stream in streams], [left_out[stream] for stream in streams], timed_out


def become(argv, env, cwd, stdin, out, err) -> None:
    try:
        os.setsid()
        os.nice(10)
        for number, handle in enumerate((stdin, out, err)):
            os.dup2(handle, number)
        for name, most in LIMITS["rlimits"].items():
            resource.setrlimit(getattr(resource, name), (most, most))
        os.chdir(cwd)
        os.execvpe(argv[0], argv, env)
    except BaseException as error:
        os.write(2, f"{argv[0]}: {error}\n".encode())
    os._exit(127)


def end_all() -> None:
    """Kill every process but this one and the sandbox's first, and wait a moment until they are gone."""
    for _ in range(50):
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            return
        time.sleep(0.002)
        if len([name for name in os.listdir("/proc") if name.isdecimal()]) <= 2 + 1:  # ours, the first, a zombie
            return


def put(content: bytes, path, mode):
    os.makedirs(os.path.dirname(path) or "/", exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    with os.fdopen(handle, "wb") as opened:
        opened.write(content)
    os.chmod(path, mode)
    return {}, b""


def read(path, most: int, folder=None) -> tuple:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(handle, "rb") as opened:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise FileNotFoundError("it is no regular file")
        content = opened.read(most + 1)
        if len(content) > most:
            raise FileNotFoundError(f"it is longer than {most} bytes")
        return content, about.st_mode & 0o777


def get(_: bytes, path, most):
    return {}, read(path, most)[0]


def tree(_: bytes, path, most_files, most_bytes, most_depth):
    end_all()
    files: list = []
    left_out: list = []
    folders: list = []
    bodies: list = []
    places = [("", 0)]
    while places:
        below, depth = places.pop()
        try:
            handle = os.open(os.path.join(path, below), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            left_out.append(below)
            continue
        try:
            names = sorted(os.listdir(handle))
            if below and not names and len(folders) < most_files:
                folders.append(below.rstrip("/"))
            for name in names:
                place = f"{below}{name}"
                about = os.lstat(name, dir_fd=handle)
                if stat.S_ISDIR(about.st_mode) and depth < most_depth:
                    places.append((place + "/", depth + 1))
                elif stat.S_ISREG(about.st_mode) and len(files) < most_files:
                    try:
                        content, mode = read(name, most_bytes, handle)
                    except OSError:
                        left_out.append(place)
                        continue
                    most_bytes -= len(content)
                    files.append([place, mode, len(content)])
                    bodies.append(content)
                else:
                    left_out.append(place)
        finally:
            os.close(handle)
    return {"files": files, "left_out": left_out[:1000], "folders": folders}, b"".join(bodies)


VERBS: dict = {"run": run, "put": put, "get": get, "tree": tree}

if __name__ == "__main__":
    serve()
