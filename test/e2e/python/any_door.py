"""Works on a sandbox of another node through the door of this one."""

import sys

from e2b import Sandbox

sandbox = Sandbox.connect(sys.argv[1])
sandbox.files.write("/tmp/note", "written by Python")
assert sandbox.commands.run("cat /tmp/note").stdout == "written by Python"
assert any(one.sandbox_id == sys.argv[1] for one in Sandbox.list().next_items())
own = Sandbox.create()
assert own.commands.run("echo mine").stdout == "mine\n"
own.kill()
