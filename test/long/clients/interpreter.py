"""What every release of the Python client of the code interpreter can do."""
from e2b_code_interpreter import Sandbox

create = Sandbox.create if hasattr(Sandbox, "create") else Sandbox
sandbox = create(timeout=120)
try:
    sandbox.run_code("x = 20")
    assert sandbox.run_code("x + 1").text == "21"
    assert sandbox.commands.run("whoami").stdout == "user\n"
    context = sandbox.create_code_context(cwd="/tmp")
    inside = sandbox.run_code("import os; os.getcwd()", context=context)
    assert inside.text == "/tmp", inside
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.run_code("x + 2").text == "22"
finally:
    sandbox.kill()
print("done")
