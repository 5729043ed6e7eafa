"""Volumes through the unmodified Python client, synchronous and asynchronous; the Node test starts it."""

import asyncio
import io
import unittest

from e2b import AsyncVolume, Sandbox, Volume
from e2b.exceptions import NotFoundException, VolumeException


class Volumes(unittest.TestCase):
    def setUp(self):
        self.volume = Volume.create("python")

    def tearDown(self):
        Volume.destroy(self.volume.volume_id)

    def test_the_whole_surface(self):
        volume = Volume.connect(self.volume.volume_id)
        self.assertEqual(volume.name, "python")
        self.assertIn("python", [one.name for one in Volume.list()])
        with self.assertRaises(VolumeException):
            Volume.create("python")
        volume.make_dir("/a/b", force=True)
        with self.assertRaises(NotFoundException):
            volume.make_dir("/x/y")
        written = volume.write_file("/a/text", "grüße", mode=0o600, uid=5)
        self.assertEqual((written.uid, written.gid, written.mode, written.size), (5, 1000, 0o600, 7))
        with self.assertRaises(VolumeException):
            volume.write_file("/a/text", "again")
        volume.write_file("/a/text", io.BytesIO(b"x" * 3_000_000), force=True)
        self.assertEqual(len(volume.read_file("/a/text", format="bytes")), 3_000_000)
        self.assertEqual(sum(map(len, volume.read_file("/a/text", format="stream"))), 3_000_000)
        self.assertEqual(volume.update_metadata("/a/text", mode=0o644).mode, 0o644)
        self.assertEqual([entry.path for entry in volume.list("/")], ["/a"])
        self.assertEqual(sorted(entry.path for entry in volume.list("/", depth=3)), ["/a", "/a/b", "/a/text"])
        self.assertTrue(volume.exists("/a/b"))
        volume.remove("/a")
        self.assertFalse(volume.exists("/a"))
        with self.assertRaises(NotFoundException):
            volume.read_file("/a/text")

    def test_the_asynchronous_client(self):
        async def work():
            volume = await AsyncVolume.connect(self.volume.volume_id)
            await volume.write_file("/async", "text")
            return await volume.read_file("/async")

        self.assertEqual(asyncio.run(work()), "text")

    def test_a_sandbox_with_the_volume(self):
        sandbox = Sandbox.create("base", timeout=3600, volume_mounts={"/mnt/data": self.volume})
        try:
            sandbox.commands.run("echo inside > /mnt/data/file")
            self.assertEqual(self.volume.read_file("/file"), "inside\n")
        finally:
            sandbox.kill()


if __name__ == "__main__":
    unittest.main()
