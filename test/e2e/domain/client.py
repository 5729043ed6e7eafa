"""What a Python user does who knows only a domain and a key; the Node test starts this with each release."""

import asyncio
import hashlib
import os
import ssl
import urllib.request

from e2b import AsyncSandbox, Sandbox, Volume


def fetch(url, data=None, headers={}):
    request = urllib.request.Request(url, data=data, headers=headers)
    with urllib.request.urlopen(request, context=ssl.create_default_context()) as answer:
        return answer.read()


def same_thread():
    sandbox = Sandbox.create(timeout=3600)
    try:
        domain = os.environ["E2B_DOMAIN"]
        assert sandbox.get_host(8000) == f"8000-{sandbox.sandbox_id}.{domain}"
        # More streams on one connection than some client libraries bear empty frames.
        for number in range(int(os.environ["COMMANDS"])):
            assert sandbox.commands.run(f"echo {number}").stdout == f"{number}\n"
        large = os.urandom(24 * 1024 * 1024)
        sandbox.files.write("large.bin", large)
        back = bytes(sandbox.files.read("large.bin", format="bytes"))
        assert hashlib.sha256(back).digest() == hashlib.sha256(large).digest()

        boundary = "frontier"
        part = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nby link\r\n--{boundary}--\r\n'
        kind = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        fetch(sandbox.upload_url("signed.txt"), part.encode(), kind)
        assert fetch(sandbox.download_url("signed.txt")) == b"by link"

        sandbox.commands.run("python3 -m http.server 8000", background=True, timeout=0)
        sandbox.commands.run("until curl -s localhost:8000 >/dev/null; do sleep 0.1; done")
        assert fetch(f"https://{sandbox.get_host(8000)}/signed.txt") == b"by link"
    finally:
        sandbox.kill()
    assert not sandbox.is_running()


async def with_async():
    sandbox = await AsyncSandbox.create(timeout=3600)
    try:
        results = await asyncio.gather(*(sandbox.commands.run(f"echo {number}") for number in range(20)))
        assert [result.stdout for result in results] == [f"{number}\n" for number in range(20)]
        screen = bytearray()

        async def on_data(data):
            screen.extend(data)

        from e2b.sandbox.commands.command_handle import PtySize

        terminal = await sandbox.pty.create(PtySize(rows=24, cols=80), on_data=on_data)
        await sandbox.pty.send_stdin(terminal.pid, b"echo $((6*7)); exit\n")
        await terminal.wait()
        assert b"42" in screen, screen
    finally:
        await sandbox.kill()


def with_volume():
    volume = Volume.create(f"domain-{os.getpid()}")
    volume.write_file("/large", b"x" * 3_000_000)
    assert len(volume.read_file("/large")) == 3_000_000
    assert Volume.destroy(volume.volume_id)


same_thread()
with_volume()
asyncio.run(with_async())
print("done")
