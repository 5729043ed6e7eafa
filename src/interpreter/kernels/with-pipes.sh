#!/bin/bash
# Starts a kernel with real pipes for requests and events: what Node gives its children are sockets, and those cannot be
# opened by a path, which is the only way in for R and Java.
exec 3< <(trap '' INT; exec cat <&3 4>&-)
exec 4> >(trap '' INT; exec cat >&4 3<&-)
exec "$@"
