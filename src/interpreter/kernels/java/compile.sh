#!/bin/bash
# Compiles Java's kernel into the folder from which the server starts it.
cd "$(dirname "$0")" && exec javac -nowarn -XDignore.symbol.file -d classes ./*.java
