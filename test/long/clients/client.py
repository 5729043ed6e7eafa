"""What every release of the Python client can do."""
from e2b import Sandbox

create = Sandbox.create if hasattr(Sandbox, "create") else Sandbox
sandbox = create(timeout=120)
try:
    assert sandbox.commands.run("echo hello from $(whoami)").stdout == "hello from user\n"
    assert sandbox.commands.run("id -un", user="root").stdout == "root\n"
    text = "a line\nand one with signs: äöü ✓\n"
    sandbox.files.write("/home/user/folder/note.txt", text)
    assert sandbox.files.read("/home/user/folder/note.txt") == text
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.commands.run("cat folder/note.txt").stdout == text
    assert sandbox.is_running()
finally:
    sandbox.kill()
assert not sandbox.is_running()
print("done")
