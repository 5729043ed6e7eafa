# Runs bash cells for the interpreter's server. It is the start file of an interactive bash, because only that one
# gives up the rest of a cell when it is interrupted. The server asks by lines on standard input, code comes with a NUL
# at its end on descriptor 3, events go as JSON lines to descriptor 4.
PS1= PS2= HISTFILE= PROMPT_COMMAND=
set +o history +H
__warren_count=0

# Takes the marker. The code must not read the standard input, from which the next requests come.
__warren_run() {
  local __warren_code
  __warren_running=$1
  IFS= read -r -d '' -u 3 __warren_code
  printf '{"type":"started","count":%d}\n' "$((++__warren_count))" >&4
  eval "$__warren_code" </dev/null 3<&- 4>&-
  __warren_end $? "$1"
}

# Takes the status of the cell and the marker. The server asks for it too when it interrupts, and then the cell may
# have come to its end by itself.
__warren_end() {
  if [ "$__warren_running" != "$2" ]; then return; fi
  __warren_running=
  if [ "$1" != 0 ]; then
    printf '{"type":"error","name":"ExitError","value":"%d","traceback":""}\n' "$1" >&4
  fi
  printf %s "$2"
  printf %s "$2" >&2
  printf '{"type":"done"}\n' >&4
}

__warren_chdir() {
  local __warren_path
  IFS= read -r -d '' -u 3 __warren_path
  if cd -- "$__warren_path" 2>/dev/null; then
    printf '{"type":"done"}\n' >&4
  else
    printf '{"type":"failed","reason":"it is no folder that can be entered"}\n' >&4
  fi
}

printf '{"type":"ready"}\n' >&4
