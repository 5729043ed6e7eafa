"""Runs a script and leaves at once. Threads of the client's HTTP library live until the end of the program, and
now and then abort a Python that ends in order ("PyGILState_Release: thread state must be current")."""

import os
import runpy
import sys
import traceback

del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
code = 0
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    code = end.code if isinstance(end.code, int) else int(end.code is not None)
except BaseException:
    traceback.print_exc()
    code = 1
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
