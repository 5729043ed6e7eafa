#!/bin/bash
# Starts a kernel with real pipes for its output: what Node gives its children are sockets, and those cannot be opened
# again as /dev/stdout or /dev/stderr. The kernel ends with the server that started it.
exec 1> >(trap '' INT; exec cat 3<&- 4>&- 5<&-) 2> >(trap '' INT; exec cat 3<&- 4>&- 5<&- >&2)
exec setpriv --pdeathsig KILL -- "$@"
