"""Pause, resume, fork and snapshot with the synchronous and the asynchronous client; prints what it saw."""
import asyncio
import sys

from e2b import AsyncSandbox, Sandbox

newest = sys.argv[1] == "newest"


def sync() -> None:
    sandbox = Sandbox.create("base", timeout=3600, envs={"GIVEN": "at create"})
    sandbox.files.write("/home/user/kept", "kept")
    sleeper = sandbox.commands.run("sleep 1000", background=True, timeout=0)
    assert sandbox.pause() is not False
    assert sandbox.is_running() is False
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.commands.run(f"kill -0 {sleeper.pid}; echo $GIVEN").stdout == "at create\n"
    assert again.files.read("/home/user/kept") == "kept"
    if newest:
        assert again.pause(mode="filesystem", strict=True) is True
        assert Sandbox.get_info(sandbox.sandbox_id).state.value == "paused"
        again = Sandbox.connect(sandbox.sandbox_id)
        assert again.commands.list() == []
        assert again.pause() is True
        again = Sandbox.connect(sandbox.sandbox_id, on_resume="reboot")
        assert again.files.read("/home/user/kept") == "kept"
    forks = again.fork(timeout=3600, count=2)
    for fork in forks:
        assert not isinstance(fork, Exception), fork
        assert fork.files.read("/home/user/kept") == "kept"
        assert fork.commands.run("hostname").stdout.strip() == fork.sandbox_id
        fork.kill()
    snapshot = again.create_snapshot(name="py-snap")
    if newest:
        files_only = again.create_snapshot(name="py-files", mode="filesystem")
        from_files = Sandbox.create(files_only.snapshot_id, timeout=3600)
        assert from_files.files.read("/home/user/kept") == "kept"
        from_files.kill()
        assert Sandbox.delete_snapshot(files_only.snapshot_id) is True
    other = Sandbox.create(snapshot.snapshot_id, timeout=3600)
    assert other.files.read("/home/user/kept") == "kept"
    other.kill()
    again.kill()
    listed = Sandbox.list_snapshots().next_items()
    assert [one.snapshot_id for one in listed] == [snapshot.snapshot_id], listed
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is False


async def later() -> None:
    sandbox = await AsyncSandbox.create("base", timeout=3600)
    await sandbox.files.write("/home/user/kept", "kept")
    await sandbox.pause()
    again = await AsyncSandbox.connect(sandbox.sandbox_id)
    assert await again.files.read("/home/user/kept") == "kept"
    [fork] = await again.fork()
    assert not isinstance(fork, Exception), fork
    assert await fork.files.read("/home/user/kept") == "kept"
    await fork.kill()
    await again.kill()


sync()
asyncio.run(later())
print("done")
