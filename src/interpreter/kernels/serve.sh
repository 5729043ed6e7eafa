#!/bin/bash
# Keeps the interpreter's server running: one that was killed comes back, with new contexts.
cd "$(dirname "$0")" || exit
while :; do
  node --disable-warning=ExperimentalWarning server.cjs
  sleep 0.5
done
