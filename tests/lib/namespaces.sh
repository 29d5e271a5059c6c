# Hosts for tests: network namespaces of this script, on a bridge of its own. To be sourced; needs root.
#
#   hosts N                make hosts 1 to N, with the addresses 10.77.0.1 and so on
#   on HOST COMMAND...     run a command on a host
#   start NAME HOST COMMAND...   start a command in the background; its input is the pipe of `say NAME`
#   say NAME LINE          write a line to its standard input
#   cut "HOSTS" "HOSTS"    drop all packets between the two sets, both ways
#   heal                   let all packets pass again
#   delay HOST MS          hold each packet that HOST sends or receives for MS: tests/namespaces/tools/delay.py
#   await TEXT FILE        wait until FILE contains TEXT
#   await_group "NAMES" FILE  wait until FILE reports a view of the group with all of these processes
#   signal NAME SIGNAL     signal a process that was started; its death is recorded in the harness's trace
#   harness WHAT           write a record of this script into the traces: tests/namespaces/tools/harness.py
#
# $work is a directory for files; it holds the output in NAME.out and NAME.err. Everything is removed on exit.

set -euo pipefail
: "${PHALANX:?the program to test}"

prefix=px$$
work=$(mktemp -d)
host_count=0
declare -A pid_of fd_of host_of
relays=()
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")/../namespaces/tools" && pwd)
harness_tool=$tools/harness.py
mkdir -p "$work/traces"

clean_up() {
  local code=$? name host relay
  set +e
  if [ "$code" -ne 0 ]; then
    for name in "${!pid_of[@]}"; do
      echo "--- $name printed last:"
      tail -n 15 "$work/$name.err" "$work/$name.out" 2>/dev/null
    done
  fi
  for name in "${!pid_of[@]}"; do kill -KILL "${pid_of[$name]}" 2>/dev/null; done
  for relay in "${relays[@]}"; do kill -KILL "$relay" 2>/dev/null; done
  wait 2>/dev/null
  for host in $(seq 1 "$host_count"); do ip netns delete "$prefix-$host"; done
  ip netns delete "$prefix-switch" 2>/dev/null
  rm -rf "$work"
  exit "$code"
}
trap clean_up EXIT

fail() { echo "FAILED: $*"; exit 1; }

hosts() {
  local host
  ip netns add "$prefix-switch"
  ip -n "$prefix-switch" link add br0 type bridge
  ip -n "$prefix-switch" link set br0 up
  for host in $(seq 1 "$1"); do
    ip netns add "$prefix-$host"
    host_count=$host
    ip -n "$prefix-$host" link set lo up
    ip -n "$prefix-$host" link add eth0 type veth peer name "port$host" netns "$prefix-switch"
    ip -n "$prefix-$host" address add "10.77.0.$host/24" dev eth0
    ip -n "$prefix-$host" link set eth0 up
    ip -n "$prefix-switch" link set "port$host" master br0 up
  done
}

# Each host has a state directory of its own. It is set by a variable because earlier builds have no flag for it.
on() { local host=$1; shift; PHALANX_STATE_DIR=$work/state-$host ip netns exec "$prefix-$host" "$@"; }

start() {
  local name=$1 host=$2 fd
  shift 2
  rm -f "$work/$name.in"
  mkfifo "$work/$name.in"
  # The pipe is opened in both directions, because opening one end alone would block until the other is opened.
  exec {fd}<>"$work/$name.in"
  fd_of[$name]=$fd
  host_of[$name]=$host
  PHALANX_STATE_DIR=$work/state-$host ip netns exec "$prefix-$host" "$@" <"$work/$name.in" >"$work/$name.out" 2>"$work/$name.err" &
  pid_of[$name]=$!
}

say() { printf '%s\n' "$2" >&"${fd_of[$1]}"; }

# The process id is the program's own: `ip netns exec` and the shell exec it.
signal() {
  # The trace must be true at any time: a stop is recorded after it happened, and its end before.
  [ "$2" != CONT ] || lives "$1" cont
  kill -"$2" "${pid_of[$1]}"
  case $2 in
    KILL)
      wait "${pid_of[$1]}" 2>/dev/null || true
      lives "$1" crash
      ;;
    STOP)
      until_stopped "${pid_of[$1]}"
      lives "$1" stop
      ;;
  esac
}

# until_stopped PID: waits until all threads of a process are stopped. The signal alone does not say so.
until_stopped() {
  while grep -hvq '^[0-9]* (.*) T ' "/proc/$1/task"/*/stat; do sleep 0.01; done
}

# lives NAME WHAT: records the incarnations on a host whose deaths are not recorded yet.
lives() {
  local file life
  for file in "$work/traces/h${host_of[$1]}"-*.trace; do
    life=${file##*-}
    life=${life%.trace}
    [ ! -e "$work/dead-$life" ] || continue
    [ "$2" != crash ] || : >"$work/dead-$life"
    harness "$2" "$life"
  done
}

harness() { python3 "$harness_tool" "$work/traces/harness.trace" field "$@" || fail "the harness's trace"; }

# cut "HOST..." "HOST...": nothing passes between the two sets. All hosts at once, each with one command: a cut that takes
# longer than silence is borne is one of single links at first, and other members go.
cut() {
  local here there host
  local -A rules=()
  local -a changes=()
  for here in $1; do
    for there in $2; do
      rules[$here]+="add rule inet cut in ip saddr 10.77.0.$there drop; "
      rules[$there]+="add rule inet cut in ip saddr 10.77.0.$here drop; "
    done
  done
  for host in "${!rules[@]}"; do
    on "$host" nft "add table inet cut; add chain inet cut in { type filter hook input priority 0; }; ${rules[$host]}" &
    changes+=($!)
  done
  for host in "${changes[@]}"; do wait "$host" || fail "the cut"; done
}

heal() {
  local host
  for host in $(seq 1 "$host_count"); do on "$host" nft delete table inet cut 2>/dev/null || true; done
}

# delay HOST MS: between the host's port and the bridge stands a program that passes packets on later. Called once for a
# host, before it sends anything.
delay() {
  local host=$1 ms=$2
  ip -n "$prefix-switch" link set "port$host" nomaster promisc on
  ip -n "$prefix-switch" link add "near$host" type veth peer name "far$host"
  ip -n "$prefix-switch" link set "near$host" master br0 up
  ip -n "$prefix-switch" link set "far$host" up promisc on
  ip netns exec "$prefix-switch" python3 "$tools/delay.py" "$ms" "port$host" "far$host" >"$work/delay$host.out" 2>&1 &
  relays+=($!)
  await ready "$work/delay$host.out"
}

# waited WHAT COMMAND..: until the command succeeds.
waited() {
  local what=$1 tries
  shift
  for tries in $(seq 1 600); do
    if "$@" 2>/dev/null; then return 0; fi
    sleep 0.1
  done
  fail "waited a minute for $what"
}

await() { waited "'$1' in $2" grep -qF -- "$1" "$2"; }

# A message reaches who is in the sender's view of the group. That a process is in the cell does not say that.
await_group() { waited "a view of the group with $1 in $2" has_group_view "$1" "$2"; }
has_group_view() {
  awk -v names="$1" '
    sub(/.*group [^ ]+ view [0-9]+: /, "") {
      sub(/;.*/, "")
      found = 1
      count = split(names, wanted, " ")
      for (i = 1; i <= count; i++) if (index(", " $0 ",", ", " wanted[i] ",") == 0) found = 0
      if (found) exit
    }
    END { exit !found }' "$2"
}

# A key that all hosts share, and each host's own settings.
key=$work/cell.key
(umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$key")

# settings HOST FOUNDERS: the flags of the process hHOST
settings() {
  local host seeds=()
  for host in $(seq 1 "$host_count"); do seeds+=("10.77.0.$host:7401"); done
  echo --cell field --name "h$1" --bind "10.77.0.$1" --data-port 7400 --control-port 7401 \
    --cell-key "$key" --seeds "$(IFS=,; echo "${seeds[*]}")" --founders "$2" \
    --runtime-dir "$work/run-$1" --trace "$work/traces" \
    --set timing.heartbeat=50ms --set timing.suspect_after=600ms
}

# check_traces OPTION...: checks all traces together, and that the properties named by the script were put to the test.
check_traces() {
  "$PHALANX" check --complete "$@" "$work/traces" >"$work/check.txt" \
    || { cat "$work/check.txt"; fail "the checker"; }
  head -n 1 "$work/check.txt"
}
