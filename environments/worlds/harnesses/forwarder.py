"""Runs inside the sandbox, which has no network: passes each connection to a loopback port on to the door's socket.

The host hands this text to `python3 -c`, so it imports the standard library alone. When the port is open it becomes
the harness; what passes connections on is a process beside it, which ends with the sandbox.
"""

import asyncio
import os
import sys


def main() -> None:
    socket, port, *command = sys.argv[1:]
    is_open, say_open = os.pipe()
    if os.fork() == 0:
        nothing = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        asyncio.run(serve(socket, int(port), say_open))
    os.close(say_open)
    os.read(is_open, 1)
    os.close(is_open)
    os.execvp(command[0], command)


async def serve(socket: str, port: int, say_open: int) -> None:
    async def pass_on(reader, writer) -> None:
        try:
            inner = await asyncio.open_unix_connection(socket)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, inner[1]), pump(inner[0], writer))

    server = await asyncio.start_server(pass_on, "127.0.0.1", port)
    os.close(say_open)
    await server.serve_forever()


async def pump(reader, writer) -> None:
    """Either end's close closes the other: an HTTP client that has left wants no answer."""
    try:
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


if __name__ == "__main__":
    main()
