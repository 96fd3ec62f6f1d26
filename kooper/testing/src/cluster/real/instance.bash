# What start, stop and the watchdog know about a running instance. Sourced by them.
# An instance is a folder, DIR: NAME.pid and NAME.log of each process, `settings`, and the data.

say() { printf 'control plane: %s\n' "$*" >&2; }
fail() {
  say "error: $*"
  exit 1
}

# Whether process $2 of instance $1 runs, and is no zombie. A process id is given to another
# process one day; ours have the folder of the instance, or the text $3, in their command line.
# It is called often while others need the CPU, so it starts no process where there is /proc.
is_running() {
  local pid='' command_line=()
  { read -r pid <"$1/$2.pid"; } 2>/dev/null
  [[ -n $pid ]] || return 1
  if [[ -d /proc/self ]]; then
    { mapfile -d '' -t command_line <"/proc/$pid/cmdline"; } 2>/dev/null
  else
    command_line=("$(ps -o args= -p "$pid" 2>/dev/null | grep -v '<defunct>')")
  fi
  [[ ${command_line[*]-} == *"${3:-$1}"* ]]
}

# Ends process $2 of instance $1 with signal $3, by force after ten seconds, and waits for its end.
end() {
  local pid deadline=$((SECONDS + 10))
  if is_running "$1" "$2"; then
    pid=$(<"$1/$2.pid")
    kill "-$3" "$pid" 2>/dev/null || true
    while is_running "$1" "$2"; do
      if ((SECONDS >= deadline)); then
        kill -KILL "$pid" 2>/dev/null || true
      fi
      sleep 0.02
    done
  fi
  rm -f "$1/$2.pid"
}

# Starts a process of instance $1 under the name $2, detached from the caller, with its output in a log.
launch() {
  local dir=$1 name=$2
  shift 2
  # A process group of its own: Ctrl-C at the caller's terminal is not for the servers.
  set -m
  (
    cd "$dir" || exit
    exec </dev/null >>"$dir/$name.log" 2>&1
    # A caller that waits for the end of a pipe must not wait for a server that inherited it.
    for fd in /dev/fd/*; do
      fd=${fd##*/}
      ((fd <= 2)) || eval "exec $fd>&-"
    done
    exec "$@"
  ) &
  set +m
  printf '%s\n' "$!" >"$dir/$name.pid"
  # Until it is the program, it has the caller's command line, and none for a moment.
  while kill -0 "$!" 2>/dev/null && ! is_running "$dir" "$name" "$1"; do
    sleep 0.01
  done
  disown
}
