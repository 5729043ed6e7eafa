#!/bin/sh
exec node --disable-warning=ExperimentalWarning /opt/mcp-gateway/main.cjs "$@"
