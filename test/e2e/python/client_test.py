"""The unmodified Python client against a real Warren; the Node test starts both and reads the exit code."""

import asyncio
import hashlib
import os
import time
import unittest

from e2b import AsyncSandbox, CommandExitException, NotFoundException, Sandbox
from e2b import SandboxQuery, TimeoutException

TEMPLATE = "base"


class SyncClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sandbox = Sandbox.create(TEMPLATE, timeout=3600, metadata={"suite": "py"}, envs={"GREETING": "hello"})

    @classmethod
    def tearDownClass(cls):
        cls.sandbox.kill()

    def test_a_command_tells_output_errors_and_exit_code(self):
        good = self.sandbox.commands.run("echo out; echo err >&2")
        self.assertEqual((good.stdout, good.stderr, good.exit_code), ("out\n", "err\n", 0))
        with self.assertRaises(CommandExitException) as failed:
            self.sandbox.commands.run("exit 7")
        self.assertEqual(failed.exception.exit_code, 7)

    def test_environment_user_and_folder(self):
        run = self.sandbox.commands.run
        self.assertEqual(run("echo $GREETING $OWN", envs={"OWN": "mine"}).stdout, "hello mine\n")
        self.assertEqual(run("whoami; pwd").stdout, "user\n/home/user\n")
        self.assertEqual(run("whoami", user="root").stdout, "root\n")
        self.assertEqual(run("pwd", cwd="/tmp").stdout, "/tmp\n")

    def test_background_commands_stream_take_input_and_can_be_killed(self):
        handle = self.sandbox.commands.run("read line; echo got $line", background=True, timeout=0, stdin=True)
        self.sandbox.commands.send_stdin(handle.pid, "word\n")
        self.assertEqual(handle.wait().stdout, "got word\n")
        sleeper = self.sandbox.commands.run("sleep 300", background=True, timeout=0)
        self.assertIn(sleeper.pid, [process.pid for process in self.sandbox.commands.list()])
        self.assertTrue(sleeper.kill())
        self.assertRaises(CommandExitException, sleeper.wait)
        self.assertFalse(self.sandbox.commands.kill(sleeper.pid))

    def test_text_and_bytes_and_64_mib(self):
        files = self.sandbox.files
        files.write("notes/a.txt", "grüße\n")
        self.assertEqual(files.read("notes/a.txt"), "grüße\n")
        large = os.urandom(64 * 1024 * 1024)
        files.write("large.bin", large)
        back = bytes(files.read("large.bin", format="bytes"))
        self.assertEqual(hashlib.sha256(back).hexdigest(), hashlib.sha256(large).hexdigest())
        files.remove("large.bin")

    def test_folders(self):
        files = self.sandbox.files
        self.assertTrue(files.make_dir("tree/deep"))
        self.assertFalse(files.make_dir("tree/deep"))
        files.write("tree/one.txt", "1")
        self.assertEqual([entry.name for entry in files.list("tree")], ["deep", "one.txt"])
        files.rename("tree/one.txt", "tree/two.txt")
        self.assertFalse(files.exists("tree/one.txt"))
        self.assertEqual(files.get_info("tree/two.txt").size, 1)
        files.remove("tree")
        with self.assertRaises(NotFoundException):
            files.read("tree/two.txt")

    def test_lists_connect_and_lifetime(self):
        listed = Sandbox.list(query=SandboxQuery(metadata={"suite": "py"})).next_items()
        self.assertIn(self.sandbox.sandbox_id, [item.sandbox_id for item in listed])
        same = Sandbox.connect(self.sandbox.sandbox_id)
        self.assertEqual(same.commands.run("echo same").stdout, "same\n")
        before = same.get_info().end_at
        same.set_timeout(7200)
        self.assertGreater(same.get_info().end_at, before)

    def test_expiry_and_kill(self):
        brief = Sandbox.create(TEMPLATE, timeout=5)
        self.assertTrue(brief.is_running())
        for _ in range(600):
            if not brief.is_running():
                break
            time.sleep(0.2)
        self.assertFalse(brief.is_running())
        with self.assertRaises(TimeoutException):
            brief.commands.run("true")
        # While it is being ended, a kill is a part of that.
        for _ in range(600):
            if not brief.kill():
                break
        self.assertFalse(brief.kill())

    def test_ports(self):
        self.sandbox.commands.run("python3 -m http.server 8003", background=True, timeout=0)
        self.assertTrue(self.sandbox.get_host(8003).startswith("8003-" + self.sandbox.sandbox_id))


class AsyncClient(unittest.IsolatedAsyncioTestCase):
    async def test_many_commands_at_once(self):
        sandbox = await AsyncSandbox.create(TEMPLATE, timeout=3600)
        try:
            results = await asyncio.gather(*(sandbox.commands.run(f"echo {n}") for n in range(20)))
            self.assertEqual([result.stdout for result in results], [f"{n}\n" for n in range(20)])
            await sandbox.files.write("async.txt", "text")
            self.assertEqual(await sandbox.files.read("async.txt"), "text")
        finally:
            await sandbox.kill()


if __name__ == "__main__":
    unittest.main(verbosity=2)
