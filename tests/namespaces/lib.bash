# Shared by all cases: namespaces on a bridge, members, faults, and the verdict. Run by run.sh:
#   bash lib.bash CASE_FILE     with PHALANX, PREFIX, WORK, CASE and QUICK set
set -uo pipefail

tools=$(dirname "${BASH_SOURCE[0]}")/tools
readonly CELL=proving-ground GROUP=lines
readonly CONTROL=7401 DATA=7400
# Time limit of one wait, in seconds. No wait should take this long; it turns a hang into a failure with a name.
readonly PATIENCE=40

# Properties that every case puts to the test, and those of cases that end in a quiet phase. A case adds its own in a
# line '# about: CODE..'. The line '# healed' means that nothing stays broken, '# healed in part' that some members are
# whole. (X3, X5: state transfers are certain only where a member comes back. All may have asked for the group at once.)
readonly ABOUT="E1 M1 M2 M3 S1 S2 S5 S6 S7 I1 I2 I3 O1 O4 O5 M4 M5 S4" ABOUT_HEALED="V1 V3 V4"

declare -A PID=() INPUT=() MARK=()
declare -a CUT=()
declare -a HELPERS=()

note() { printf '%8.2f  %s\n' "$(elapsed)" "$*"; }
elapsed() { awk -v now="${EPOCHREALTIME/,/.}" -v since="$BEGAN" 'BEGIN { print now - since }'; }
BEGAN=${EPOCHREALTIME/,/.}

fail() {
  local file
  echo "FAILED: $*"
  for file in "$WORK"/*.told; do
    [ -s "$file" ] && { echo "--- $(basename "$file" .told) told"; tail -n 12 "$file"; }
  done
  exit 1
}

# --- the network

in_ns() { local name=$1; shift; ip netns exec "$PREFIX$name" "$@"; }

# network N: makes namespaces 1..N on a bridge in a namespace of its own, with a set of cut directed links.
network() {
  local i
  ip netns add "${PREFIX}sw" || fail "no namespace for the bridge"
  ip -n "${PREFIX}sw" link add br0 type bridge mcast_snooping 0 forward_delay 0 || fail "no bridge"
  ip -n "${PREFIX}sw" link set br0 up
  for i in $(seq 1 "$1"); do attach "$i"; done
  # ARP always passes. Without it the healthy direction would fail with the cut one as soon as the neighbour's entry
  # expires.
  in_ns sw nft 'add table bridge flt
    add set bridge flt cut { type ifname . ifname; }
    add chain bridge flt f { type filter hook forward priority 0; }
    add rule bridge flt f ether type != arp iifname . oifname @cut drop' || fail "no filter in the bridge"
}

attach() {
  ip netns add "$PREFIX$1" && ip link add name eth0 netns "$PREFIX$1" type veth peer name "p$1" netns "${PREFIX}sw" &&
    ip -n "${PREFIX}sw" link set "p$1" master br0 up && ip -n "$PREFIX$1" link set lo up &&
    ip -n "$PREFIX$1" addr add "$(address "$1")/24" dev eth0 && ip -n "$PREFIX$1" link set eth0 up ||
    fail "no namespace $1"
}

address() { echo "10.77.0.$1"; }

# cut FROM>TO..: drops all packets from one to the other, all links in one step.
cut() {
  local pair list=
  for pair in "$@"; do list+="${list:+, }\"p${pair%>*}\" . \"p${pair#*>}\""; done
  in_ns sw nft "add element bridge flt cut { $list }" || fail "cannot cut $*"
  harness cut $(named "$@")
  CUT+=("$@")
  note "cut $*"
}

# both A B..: the links between A and each of the others, both ways, as arguments for cut.
both() {
  local a=$1 b
  shift
  for b in "$@"; do echo "$a>$b" "$b>$a"; done
}

# named 1>2..: prints the links with the names of the members.
named() { local pair; for pair in "$@"; do echo "m${pair%>*}>m${pair#*>}"; done; }

# The trace must be true at any time: links are cut before it records the cut, and healed after it records the mend.
heal() {
  [ ${#CUT[@]} -eq 0 ] || harness mend $(named "${CUT[@]}")
  CUT=()
  in_ns sw nft flush set bridge flt cut || fail "cannot heal"
  note "healed"
}

# --- members

key() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$1" && chmod 600 "$1"; }

# A case may give its members further options in SETTINGS.
cell_flags() {
  local i=$1 j seeds= founders=
  for j in $ALL; do
    seeds+="${seeds:+,}$(address "$j"):$CONTROL"
    founders+="${founders:+,}m$j"
  done
  # shellcheck disable=SC2086
  echo ${SETTINGS:-} --cell "$CELL" --name "m$i" --bind "$(address "$i")" --control-port $CONTROL --data-port $DATA \
    --seeds "$seeds" --founders "$founders" --cell-key "$WORK/cell.key" \
    --runtime-dir "$WORK/run$i" --state-dir "$WORK/state$i" --trace "$WORK/traces"
}

# Prints numbered lines, slowly, until no process reads them.
feed() {
  local n=0
  while n=$((n + 1)) && printf 'line %s %06d\n' "$1" $n; do sleep 0.05; done 2>/dev/null
}

# member I [FLAG..]: starts member I. Those in FEEDING multicast lines, the others only listen.
member() {
  local i=$1
  shift
  rm -f "$WORK/in$i"
  mkfifo "$WORK/in$i"
  # Not in_ns: a function would run in a shell of its own, and the number would be that shell's.
  # shellcheck disable=SC2046
  ip netns exec "$PREFIX$i" "$PHALANX" cat --group $GROUP --json "$@" $(cell_flags "$i") \
    <"$WORK/in$i" >>"$WORK/m$i.lines" 2>>"$WORK/m$i.told" &
  PID[$i]=$!
  if [[ " $FEEDING " == *" $i "* ]]; then feed "m$i" >"$WORK/in$i" & else sleep infinity >"$WORK/in$i" & fi
  INPUT[$i]=$!
}

# cell N: starts N members that found a cell, waits until all are in one view, and lets lines flow. Of the feeding
# members, the second requests uniform delivery.
cell() {
  local i
  ALL=$(seq -s ' ' 1 "$1")
  : "${FEEDING:=1 2 3}"
  key "$WORK/cell.key"
  mkdir -p "$WORK/traces"
  harness create
  # shellcheck disable=SC2086
  harness about $ABOUT $(about_more)
  harness faulty
  for i in $ALL; do
    if [ "$i" = 2 ]; then member "$i" --uniform; else member "$i" --plain; fi
  done
  # shellcheck disable=SC2086
  await "all members are in one view" in_view "$ALL" $ALL
  # shellcheck disable=SC2086
  await "all members are in one view of the group" in_group_view "$ALL" $ALL
  # shellcheck disable=SC2086
  flows "$FEEDING" $ALL
  mark
}

# The additional properties of this case.
about_more() {
  grep -q '^# healed$' "$CASE_FILE" && echo "$ABOUT_HEALED"
  sed -n 's/^# about: //p' "$CASE_FILE"
}

harness() { python3 "$tools/harness.py" "$WORK/traces/harness.trace" "$CELL" "$@" || fail "the harness's trace"; }

# stat_of I FIELD: prints a field of member I's counters file.
stat_of() {
  in_ns "$1" "$PHALANX" stat --json --cell "$CELL" --runtime-dir "$WORK/run$1" --state-dir "$WORK/state$1" 2>/dev/null |
    python3 "$tools/field.py" "$2"
}

incarnation() { stat_of "$1" incarnation; }
resident_kib() { awk '/^VmRSS/ { print $2 }' "/proc/${PID[$1]}/status"; }

# kill9 I..: kills all of these at once, waits until they are dead, and records that in the trace.
kill9() {
  local i ids=() pids=()
  for i in "$@"; do ids+=("$(incarnation "$i")") pids+=("${PID[$i]}"); done
  kill -KILL "${pids[@]}" || fail "cannot kill $*"
  note "killed $*"
  for i in "$@"; do
    wait "${PID[$i]}" 2>/dev/null
    kill "${INPUT[$i]}" 2>/dev/null
    unset "PID[$i]" "INPUT[$i]"
  done
  for i in "${ids[@]}"; do harness crash "$i"; done
}

# all_stopped I: whether all threads of member I are stopped. The signal alone does not say so.
all_stopped() { ! grep -hvq '^[0-9]* (.*) T ' "/proc/${PID[$1]}/task"/*/stat; }

# helper COMMAND..: runs a command in the background; it is killed with the case.
helper() { "$@" & HELPERS+=($!); }

# --- the events that the members printed

# mark: from here on `told` considers only later events.
mark() { local i; for i in $ALL; do MARK[$i]=$(wc -l <"$WORK/m$i.told"); done; }

# told I EVENT: prints the events of that kind that member I printed since the mark, the last first.
told() { tail -n "+$((MARK[$1] + 1))" "$WORK/m$1.told" | grep "\"event\":\"$2\"" | tac | grep .; }

# Prints the members of the last view of a kind at member I, sorted.
last_view() { grep "\"event\":\"$2\"" "$WORK/m$1.told" | tail -n 1 | sed 's/.*"members":\[\([^]]*\)\].*/\1/' | tr -d '"m' | tr ',' '\n' | sort -n | xargs; }

# in_view "1 2 3" I..: the last view of each I holds exactly these.
in_view() { local want=$1 i; shift; for i in "$@"; do [ "$(last_view "$i" cell_view)" = "$want" ] || return 1; done; }
in_group_view() { local want=$1 i; shift; for i in "$@"; do [ "$(last_view "$i" group_view)" = "$want" ] || return 1; done; }

# Prints the number of the last line of sender F that member I printed.
last_line() { grep -a "\"from\":\"m$2\"" "$WORK/m$1.lines" | tail -n 1 | sed 's/.*line m[0-9]* 0*\([0-9]\{1,\}\).*/\1/' | grep . || echo 0; }

reached() { [ "$(last_line "$1" "$2")" -ge "$3" ]; }

# flows "SENDERS" I..: waits until each I prints lines that each sender multicasts from now on.
flows() {
  local senders=$1 f i target
  shift
  for f in $senders; do
    target=$(($(last_line "$f" "$f") + 15))
    for i in "$@"; do await "member $i prints line $target of m$f" reached "$i" "$f" "$target"; done
  done
}

# await WHAT COMMAND..: waits until the command succeeds.
await() {
  local what=$1 until=$((SECONDS + PATIENCE))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $until ] || fail "after $PATIENCE s not yet: $what"
    sleep 0.1
  done
  note "$what"
}

# never EVENT I..: fails if one of these printed such an event since the mark.
never() {
  local event=$1 i
  shift
  for i in "$@"; do
    ! told "$i" "$event" || fail "member $i told $event"
  done
}

# undisturbed I..: these were in the primary partition all the time.
undisturbed() { never non_primary "$@"; never excluded "$@"; }

# back I: waits until member I was notified of its exclusion and is in a view of all again.
back() {
  await "member $1 tells that it was excluded" told "$1" excluded
  # shellcheck disable=SC2086
  await "all are in one view again" in_view "$ALL" $ALL
  # shellcheck disable=SC2086
  await "all are in one view of the group again" in_group_view "$ALL" $ALL
}

without() { local i out=; for i in $ALL; do [[ " $* " == *" $i "* ]] || out+="${out:+ }$i"; done; echo "$out"; }

# --- the end

# verdict [healed [I..]]: ends the members and has the traces checked. With `healed`, every fault is over, or the members
# I are whole, and the checker evaluates liveness too.
verdict() {
  local i how=${1:-} ids=()
  if [ "$how" = healed ]; then
    shift
    grep -q '^# healed' "$CASE_FILE" || fail "the case does not say that it is healed"
    harness heal
    # shellcheck disable=SC2046
    harness quiet $(for i in "$@"; do echo "m$i"; done)
    # Liveness is checked over the quiet phase, which must be longer than the checker's two bounds, 10 s and 5 s.
    sleep "${QUIET_SECONDS:-17}"
  fi
  for i in "${!INPUT[@]}"; do kill "${INPUT[$i]}" 2>/dev/null; wait "${INPUT[$i]}" 2>/dev/null; done
  sleep 0.5
  harness end
  for i in "${!PID[@]}"; do kill -0 "${PID[$i]}" 2>/dev/null || fail "member $i ended by itself"; done
  # A process that does not leave by itself is killed, and its death recorded.
  for i in "${!PID[@]}"; do ids+=("$(incarnation "$i")"); done
  if [ "$how" = healed ]; then
    kill -KILL "${PID[@]}"
    for i in "${!PID[@]}"; do wait "${PID[$i]}" 2>/dev/null; done
  else
    for i in "${!PID[@]}"; do
      kill -TERM "${PID[$i]}"
      wait "${PID[$i]}" || fail "member $i ended with exit code $?"
    done
  fi
  for i in "${ids[@]}"; do harness crash "$i"; done
  PID=()
  ! grep -l "panicked" "$WORK"/*.told || fail "somebody panicked"
  note "judging the traces"
  "$PHALANX" check --complete --one-instance "$WORK/traces" >"$WORK/verdict" ||
    { cat "$WORK/verdict"; fail "the checker refuses the traces"; }
  cat "$WORK/verdict"
}

cleanup() {
  local pid name
  trap - EXIT
  for pid in "${HELPERS[@]}" "${INPUT[@]}"; do kill "$pid" 2>/dev/null; done
  for pid in "${PID[@]}"; do kill -CONT "$pid" 2>/dev/null; kill -KILL "$pid" 2>/dev/null; done
  wait 2>/dev/null
  for name in $(ip netns list | awk '{print $1}'); do
    [[ $name != "$PREFIX"* ]] || ip netns delete "$name"
  done
}
trap cleanup EXIT
trap 'exit 143' TERM INT

readonly CASE_FILE=$1
. "$1"
