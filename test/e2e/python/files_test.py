"""Files through the unmodified Python client, sync and async; the Node test starts it and reads the exit code."""

import asyncio
import io
import os
import time
import unittest
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from e2b import AsyncSandbox, FileType, InvalidArgumentException, NotFoundException, Sandbox
from e2b import FilesystemEventType as Event

TEMPLATE = "base"
BYTES = os.urandom(300_000)


def pieces():
    for start in range(0, len(BYTES), 40_000):
        yield BYTES[start : start + 40_000]


class SyncFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sandbox = Sandbox.create(TEMPLATE, timeout=3600)
        cls.files = cls.sandbox.files

    @classmethod
    def tearDownClass(cls):
        cls.sandbox.kill()

    def test_every_way_to_write_can_be_read_in_every_way(self):
        self.files.write("bytes", BYTES)
        self.files.write("object", io.BytesIO(BYTES))
        self.files.write("stream", pieces())
        self.files.write("zipped", BYTES, gzip=True)
        self.files.write("zipped-stream", pieces(), gzip=True)
        for name in ["bytes", "object", "stream", "zipped", "zipped-stream"]:
            self.assertEqual(bytes(self.files.read(name, format="bytes")), BYTES, name)
            self.assertEqual(bytes(self.files.read(name, format="bytes", gzip=True)), BYTES, name)
            self.assertEqual(b"".join(self.files.read(name, format="stream")), BYTES, name)
        self.files.write("text", "grüße")
        self.assertEqual(self.files.read("text"), "grüße")

    def test_metadata_stays_until_the_next_upload(self):
        metadata = {"author": "somebody"}
        self.assertEqual(self.files.write("noted", "x", metadata=metadata).metadata, metadata)
        self.assertEqual(self.files.get_info("noted").metadata, metadata)
        self.assertEqual(self.files.rename("noted", "noted-too").metadata, metadata)
        self.files.write("noted-too", "y")
        self.assertIsNone(self.files.get_info("noted-too").metadata)
        with self.assertRaises(InvalidArgumentException):
            self.files.write("noted", "x", metadata={"k": "v" * 5000})

    def test_links_are_told_as_links(self):
        self.sandbox.commands.run("mkdir links; cd links; touch file; mkdir dir; ln -s file a; ln -s dir b; ln -s no c")
        entries = {entry.name: entry for entry in self.files.list("links")}
        for name in "abc":
            self.assertIsNotNone(entries[name].symlink_target, name)
            self.assertEqual(entries[name].type, FileType.SYMLINK, name)
        self.assertEqual((entries["file"].type, entries["dir"].type), (FileType.FILE, FileType.DIR))

    def test_a_watcher_hands_over_what_happened(self):
        self.files.make_dir("watched")
        watcher = self.files.watch_dir("watched", recursive=True, include_entry=True)
        self.files.write("watched/file", "one")
        seen = self.until(watcher, (Event.WRITE, "file"))
        self.assertIn((Event.CREATE, "file"), seen)
        self.files.write("watched/file", "two")
        self.assertEqual(self.until(watcher, (Event.WRITE, "file")), [(Event.WRITE, "file")])
        self.sandbox.commands.run("cd watched; mkdir -p a/b; echo x > a/b/c; chmod 600 file; mv file x; rm x")
        seen = self.until(watcher, (Event.REMOVE, "x"))
        for event in [(Event.CREATE, "a/b/c"), (Event.CHMOD, "file"), (Event.RENAME, "file"), (Event.CREATE, "x")]:
            self.assertIn(event, seen)
        watcher.stop()
        with self.assertRaises(NotFoundException):
            self.files.watch_dir("nothing")
        with self.assertRaises(InvalidArgumentException):
            self.files.watch_dir("watched/a/b/c")

    def until(self, watcher, last):
        seen = []
        deadline = time.monotonic() + 20
        while last not in seen and time.monotonic() < deadline:
            for event in watcher.get_new_events():
                seen.append((event.type, event.name))
                if event.type == Event.WRITE:
                    self.assertEqual(event.entry.type, FileType.FILE)
        self.assertIn(last, seen)
        return seen

    def test_signed_links_work_without_any_header(self):
        def fetch(url, data=None, kind="text/plain"):
            return urlopen(Request(url, data=data, headers={"Content-Type": kind})).read()

        form = b'--edge\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nby link\r\n--edge--\r\n'
        upload = self.sandbox.upload_url("signed.txt", use_signature_expiration=600)
        fetch(upload, form, "multipart/form-data; boundary=edge")
        download = self.sandbox.download_url("signed.txt", use_signature_expiration=600)
        self.assertEqual(fetch(download), b"by link")
        for forged in [upload, download.replace("signed.txt", "bytes")]:
            with self.assertRaises(HTTPError) as refused:
                fetch(forged)
            self.assertEqual(refused.exception.code, 401)

    def test_refusals(self):
        with self.assertRaises(NotFoundException):
            self.files.read("nothing")
        with self.assertRaises(InvalidArgumentException):
            self.files.read("/home/user")
        with self.assertRaises(InvalidArgumentException):
            self.files.write("/home/user", "x")


class AsyncFiles(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.sandbox = await AsyncSandbox.create(TEMPLATE, timeout=3600)
        self.files = self.sandbox.files

    async def asyncTearDown(self):
        await self.sandbox.kill()

    async def test_streams_and_watching(self):
        async def later_pieces():
            for piece in pieces():
                yield piece

        await self.files.write("stream", later_pieces())
        await self.files.write("zipped", io.BytesIO(BYTES), gzip=True)
        for name in ["stream", "zipped"]:
            received = [chunk async for chunk in await self.files.read(name, format="stream")]
            self.assertEqual(b"".join(received), BYTES)
        await self.files.make_dir("watched")
        seen = []
        watcher = await self.files.watch_dir(
            "watched", on_event=lambda event: seen.append((event.type, event.name)), recursive=True
        )
        await asyncio.gather(*(self.files.write(f"watched/{n}/file", "x") for n in range(20)))
        wanted = {(Event.CREATE, f"{n}/file") for n in range(20)} | {(Event.WRITE, f"{n}/file") for n in range(20)}
        deadline = time.monotonic() + 20
        while not wanted <= set(seen) and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        self.assertLessEqual(wanted, set(seen))
        self.assertFalse([event for event in seen if "warren" in event[1]])
        await watcher.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
