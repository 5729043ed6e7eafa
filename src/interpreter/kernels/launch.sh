#!/bin/bash
# Starts a kernel with real pipes for its output: what Node gives its children are sockets, and those cannot be opened
# again as /dev/stdout or /dev/stderr. The kernel ends with the server that started it. The first word is the folder to
# start in, for the kernels that cannot go to another one later; whether they are in it they tell themselves.
cd -- "$1" 2>/dev/null
shift
exec 1> >(trap '' INT; exec cat 3<&- 4>&- 5<&-) 2> >(trap '' INT; exec cat 3<&- 4>&- 5<&- >&2)
exec setpriv --pdeathsig KILL -- "$@"
