"""Commands and terminals through the unmodified Python client; the Node test starts Warren and reads the exit code."""

import asyncio
import threading
import time
import unittest

from e2b import AsyncSandbox, CommandExitException, NotFoundException, PtySize, Sandbox
from e2b import SandboxException, TimeoutException

TEMPLATE = "base"
SIZE = PtySize(rows=30, cols=100)


class Screen:
    """What a terminal has shown so far."""

    def __init__(self):
        self.text = b""

    def show(self, data):
        self.text += bytes(data)

    def has(self, wanted):
        return wanted in self.text


def until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it did not come")
        time.sleep(0.02)


async def async_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("it did not come")
        await asyncio.sleep(0.02)


class SyncProcesses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sandbox = Sandbox.create(TEMPLATE, timeout=3600)

    @classmethod
    def tearDownClass(cls):
        cls.sandbox.kill()

    def follow(self, handle):
        """Reads a terminal in a thread of its own; gives its screen and how it ended."""
        screen, ended = Screen(), {}

        def read():
            try:
                ended["result"] = handle.wait(on_pty=screen.show)
            except Exception as error:
                ended["error"] = error

        thread = threading.Thread(target=read)
        thread.start()
        return screen, ended, thread

    def test_a_terminal_is_typed_into_resized_and_ends(self):
        handle = self.sandbox.pty.create(SIZE, cwd="/tmp", envs={"OWN": "mine"})
        screen, ended, thread = self.follow(handle)
        self.sandbox.pty.send_stdin(handle.pid, b"stty size; pwd; echo $OWN\r")
        until(lambda: screen.has(b"30 100\r\n/tmp\r\nmine\r\n"))
        self.sandbox.pty.resize(handle.pid, PtySize(rows=40, cols=120))
        self.sandbox.pty.send_stdin(handle.pid, b"stty size\r")
        until(lambda: screen.has(b"40 120\r\n"))
        self.sandbox.pty.send_stdin(handle.pid, b"exit 6\r")
        thread.join(20)
        self.assertIsInstance(ended.get("error"), CommandExitException)
        self.assertEqual(ended["error"].exit_code, 6)

    def test_a_terminal_is_killed_once(self):
        handle = self.sandbox.pty.create(SIZE)
        self.assertTrue(self.sandbox.pty.kill(handle.pid))
        with self.assertRaises(CommandExitException):
            handle.wait()
        self.assertFalse(self.sandbox.pty.kill(handle.pid))

    def test_a_terminal_is_left_and_joined_again(self):
        handle = self.sandbox.pty.create(SIZE, timeout=0)
        self.sandbox.pty.send_stdin(handle.pid, b"cd /var\r")
        handle.disconnect()
        screen, _, thread = self.follow(self.sandbox.pty.connect(handle.pid))
        self.sandbox.pty.send_stdin(handle.pid, b"pwd\r")
        until(lambda: screen.has(b"/var\r\n"))
        self.assertTrue(self.sandbox.pty.kill(handle.pid))
        thread.join(20)

    def test_input_is_streamed_to_a_terminal(self):
        handle = self.sandbox.pty.create(SIZE)
        screen, _, thread = self.follow(handle)
        self.sandbox.pty.stream_input(handle.pid, iter([b"echo str", b"eam$((1))ed\r"]))
        until(lambda: screen.has(b"stream1ed\r\n"))
        self.sandbox.pty.kill(handle.pid)
        thread.join(20)

    def test_input_is_streamed_frame_by_frame_and_stdin_stays_open(self):
        handle = self.sandbox.commands.run("while read line; do echo got $line; done", background=True, timeout=0, stdin=True)
        seen = []
        reader = threading.Thread(target=lambda: handle.wait(on_stdout=seen.append))
        reader.start()

        def pieces():
            yield "one\n"
            until(lambda: "got one\n" in "".join(seen))
            yield b"two\n"

        self.sandbox.commands.stream_input(handle.pid, pieces())
        self.sandbox.commands.send_stdin(handle.pid, "three\n")
        self.sandbox.commands.close_stdin(handle.pid)
        reader.join(20)
        self.assertEqual("".join(seen), "got one\ngot two\ngot three\n")

    def test_input_for_nobody_is_refused(self):
        with self.assertRaises(NotFoundException):
            self.sandbox.commands.stream_input(999_999, iter(["x"]))
        sleeper = self.sandbox.commands.run("sleep 600", background=True, timeout=0)
        with self.assertRaises(SandboxException):
            self.sandbox.commands.stream_input(sleeper.pid, iter(["x"]))
        with self.assertRaises(SandboxException):
            self.sandbox.pty.send_stdin(sleeper.pid, b"x")
        sleeper.kill()

    def test_a_command_that_takes_too_long_is_killed(self):
        with self.assertRaises(TimeoutException):
            self.sandbox.commands.run("sleep 601", timeout=0.5)
        count = "ps -e -o args= | grep -c '[s]leep 601' || true"
        until(lambda: self.sandbox.commands.run(count).stdout == "0\n")

    def test_what_ended_can_still_be_read(self):
        started = self.sandbox.commands.run("echo kept; echo too >&2; exit 9", background=True, timeout=0)
        started.disconnect()
        with self.assertRaises(CommandExitException) as told:
            started = self.sandbox.commands.connect(started.pid)
            started.wait()
        self.assertEqual(told.exception.exit_code, 9)
        with self.assertRaises(CommandExitException) as again:
            self.sandbox.commands.connect(started.pid).wait()
        self.assertEqual((again.exception.stdout, again.exception.stderr), ("kept\n", "too\n"))


class AsyncProcesses(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.sandbox = await AsyncSandbox.create(TEMPLATE, timeout=3600)

    async def asyncTearDown(self):
        await self.sandbox.kill()

    async def test_a_terminal_from_its_start_to_its_end(self):
        sandbox, screen = self.sandbox, Screen()
        handle = await sandbox.pty.create(SIZE, on_data=screen.show, timeout=0)
        await sandbox.pty.send_stdin(handle.pid, b"stty size; whoami\r")
        await async_until(lambda: screen.has(b"30 100\r\nuser\r\n"))
        await sandbox.pty.resize(handle.pid, PtySize(rows=40, cols=120))
        stream = sandbox.pty.stream_input(handle.pid)
        await stream.send(b"stty ")
        await stream.send(b"size\r")
        await async_until(lambda: screen.has(b"40 120\r\n"))
        await stream.close()
        await handle.disconnect()
        again = Screen()
        joined = await sandbox.pty.connect(handle.pid, on_data=again.show)
        await sandbox.pty.send_stdin(handle.pid, b"echo ag$((0))ain\r")
        await async_until(lambda: again.has(b"ag0ain\r\n"))
        self.assertTrue(await joined.kill())
        with self.assertRaises(CommandExitException):
            await joined.wait()
        self.assertFalse(await sandbox.pty.kill(handle.pid))

    async def test_streamed_input_arrives_as_it_is_sent(self):
        seen = []
        handle = await self.sandbox.commands.run(
            "while read line; do echo got $line; done", background=True, timeout=0, stdin=True, on_stdout=seen.append
        )
        stream = self.sandbox.commands.stream_input(handle.pid)
        for word in ("one", "two"):
            await stream.send(f"{word}\n")
            await async_until(lambda: f"got {word}\n" in "".join(seen))
        await stream.close()
        await self.sandbox.commands.close_stdin(handle.pid)
        self.assertEqual((await handle.wait()).stdout, "got one\ngot two\n")

    async def test_streamed_input_for_nobody_is_refused_early(self):
        with self.assertRaises(NotFoundException):
            stream = self.sandbox.commands.stream_input(999_999)
            for _ in range(200):
                await stream.send("x")
                await asyncio.sleep(0.05)
            await stream.close()

    async def test_a_command_that_takes_too_long_is_killed(self):
        with self.assertRaises(TimeoutException):
            await self.sandbox.commands.run("sleep 600", timeout=0.5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
