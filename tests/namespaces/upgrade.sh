#!/usr/bin/env bash
# Five members of an earlier build under load are replaced one by one by this build; then the cell rises to its level.
#
# PHALANX is this build, OLD_BUILD the earlier one: tests/lib/old_build.sh makes it. Figures are printed.
. "$(dirname "${BASH_SOURCE[0]}")/../lib/namespaces.sh"
: "${OLD_BUILD:?the earlier build, see tests/lib/old_build.sh}"

# about: E1 M1 M2 M3 M4 M5 M6 M11 S1 S2 S3 S4 S5 S6 S7 S8 I1 I2 I3 O1 O3 O4 O5 U1 U2 X2 X3 X5 V1 V3 V4
harness create
harness about $(sed -n 's/^# about: //p' "$0")
harness faulty

level_of() { "$1" --version | sed -n 's/.* level \([0-9]*\)).*/\1/p'; }
old=$(level_of "$OLD_BUILD") new=$(level_of "$PHALANX")
[ "$old" -lt "$new" ] || fail "both builds know level $new at most: nothing to rise to"

# Hosts 1 to 5 have the members, 6 the operator, 7 a process of the earlier build that comes too late.
hosts 7
members=(h1 h2 h3 h4 h5)
feeding=(1 3 5)
declare -A now
for host in "${feeding[@]}"; do echo 0 >"$work/fed$host"; done

# build HOST PROGRAM: starts a member on that host. Its multicasts continue the numbers of the one before.
build() {
  local name=m$1-old uniform=
  [ "$2" != "$PHALANX" ] || name=m$1-new
  now[$1]=$name
  [ "$1" != 3 ] || uniform=--uniform
  start "$name" "$1" "$2" cat --group lines --json $uniform $(settings "$1" "$(IFS=,; echo "${members[*]}")")
}

# Feeds about 200 lines a second.
feed() {
  local host=$1 n=$2
  while :; do
    printf "line h$host %07d\n" $(seq $((n + 1)) $((n + 10)))
    n=$((n + 10))
    echo $n >"$work/fed$host"
    sleep 0.05
  done >&"${fd_of[${now[$host]}]}"
}

# The feeder is among the processes that are killed when this script ends.
begin_feeding() { feed "$1" "$(cat "$work/fed$1")" & pid_of[feeder$1]=$!; }
end_feeding() {
  kill "${pid_of[feeder$1]}"
  wait "${pid_of[feeder$1]}" 2>/dev/null || true
  unset "pid_of[feeder$1]"
}
is_feeding() { [ -n "${pid_of[feeder$1]:-}" ]; }

# until_so WHAT COMMAND..: waits until the command succeeds, a minute at most.
until_so() {
  local what=$1 tries
  shift
  for tries in $(seq 1 600); do "$@" && return 0; sleep 0.1; done
  fail "waited a minute until $what"
}

last_view() { grep -F '"event":"'"$2"'"' "$work/${now[$1]}.err" | tail -n 1; }
view_number() { last_view 1 cell_view | sed 's/.*"view":\([0-9]*\).*/\1/'; }
names() { sed 's/.*"members":\[\([^]]*\)\].*/\1/' | tr -d '"' | tr ',' '\n' | sort | xargs; }
in_view() { local host; for host in "${!now[@]}"; do [ "$(last_view "$host" "$2" | names)" = "$1" ] || return 1; done; }
all_in() { in_view "$1" cell_view && in_view "$1" group_view; }

last_line() { tail -n 400 "$work/${now[$1]}.out" | grep -o "line h$2 [0-9]*" | tail -n 1 | sed 's/.* 0*\([0-9]\)/\1/'; }
has_printed() { [ "$(last_line "$1" "$2" || echo 0)" -ge "$3" ] 2>/dev/null; }

# Waits until all members print the lines that each feeder is given from now on.
flows() {
  local from to target
  for from in "${feeding[@]}"; do
    is_feeding "$from" || continue
    target=$(($(cat "$work/fed$from") + 50))
    for to in "${!now[@]}"; do until_so "h$to prints line $target of h$from" has_printed "$to" "$from" "$target"; done
  done
}

# Prints the packets and bytes that the members' hosts have sent so far.
sent() {
  local host
  for host in 1 2 3 4 5; do
    on "$host" cat /sys/class/net/eth0/statistics/tx_packets /sys/class/net/eth0/statistics/tx_bytes | xargs
  done | awk '{ packets += $1; bytes += $2 } END { print packets, bytes }'
}

seconds() { date +%s.%N; }
figures() { # WHAT: since the last call
  local since at
  read -ra since <<<"$before"
  before="$(sent) $(seconds) $(view_number)"
  read -ra at <<<"$before"
  awk -v what="$1" -v p=$((at[0] - since[0])) -v b=$((at[1] - since[1])) -v v=$((at[3] - since[3])) \
    -v t0="${since[2]}" -v t1="${at[2]}" \
    'BEGIN { t = t1 - t0; printf "%-28s %6.1f s  %7d packets  %9d bytes  %6.0f packets/s  %8.0f bytes/s  %2d views\n", what, t, p, b, p / t, b / t, v }'
}

operator() { on 6 "$PHALANX" level "$@" $(settings 6 "$(IFS=,; echo "${members[*]}")"); }

for host in 1 2 3 4 5; do build "$host" "$OLD_BUILD"; done
until_so "all five are in one view" all_in "h1 h2 h3 h4 h5"
for host in "${feeding[@]}"; do begin_feeding "$host"; done
flows
before="$(sent) $(seconds) $(view_number)"
sleep 10
flows
figures "level $old, earlier build"

for host in 1 2 3 4 5; do
  rest=$(echo "h1 h2 h3 h4 h5" | sed "s/h$host//" | xargs)
  fed=0
  if is_feeding "$host"; then fed=1; end_feeding "$host"; fi
  gone=${now[$host]}
  # Every other one leaves; the others are killed.
  if [ $((host % 2)) = 1 ]; then
    signal "$gone" TERM
    wait "${pid_of[$gone]}" || fail "h$host does not leave: exit code $?"
  else
    signal "$gone" KILL
  fi
  unset "now[$host]" "pid_of[$gone]"
  until_so "h$host is out of the view" all_in "$rest"
  flows
  build "$host" "$PHALANX"
  until_so "the new h$host is in the view" all_in "h1 h2 h3 h4 h5"
  if [ $fed = 1 ]; then begin_feeding "$host"; fi
  flows
  if [ "$host" = 3 ]; then
    code=0
    operator --raise --timeout 20s >"$work/refused.out" 2>"$work/refused.err" || code=$?
    [ $code = 1 ] || fail "the rise is not refused: exit code $code: $(cat "$work/refused.out" "$work/refused.err")"
    grep -qE "member h[45] knows level $old at most" "$work/refused.err" || fail "nobody is named: $(cat "$work/refused.err")"
    sed 's/^/asked too early: /' "$work/refused.err"
    until_so "the operator is gone" all_in "h1 h2 h3 h4 h5"
  fi
done
figures "five replaced"
for host in 1 2 3 4 5; do
  if last_view "$host" cell_view | grep -qv "\"level\":$old,"; then fail "the level rose before it was asked for"; fi
done

began=$(seconds)
raised=$(operator --raise --timeout 20s --json 2>"$work/raised.err") || fail "no rise: exit code $?: $(cat "$work/raised.err")"
echo "raised: $raised, in $(awk -v a="$began" -v b="$(seconds)" 'BEGIN { printf "%.1f", b - a }') s with coming and going"
grep -qF "\"level\":$new," <<<"$raised" || fail "it says $raised"
until_so "the operator is gone" all_in "h1 h2 h3 h4 h5"
flows
figures "rise to level $new"
for host in 1 2 3 4 5; do
  last_view "$host" cell_view | grep -qF "\"level\":$new," || fail "h$host is not at level $new: $(last_view "$host" cell_view)"
done

start late 7 "$OLD_BUILD" node $(settings 7 h1)
await "kept out of the cell: level is $new there and $old here" "$work/late.out"
sed -n 's/^kept out/the earlier build: kept out/p' "$work/late.out"
if grep -q "cell view" "$work/late.out"; then fail "the earlier build came in"; fi
signal late TERM
wait "${pid_of[late]}" || fail "who is kept out does not end: exit code $?"
unset "pid_of[late]"

# Long enough for the bounds of liveness.
harness heal
harness quiet
figures "the earlier build is kept out"
sleep 17
flows
figures "level $new, this build"

for host in "${feeding[@]}"; do end_feeding "$host"; done
# No member was excluded or without a quorum. Only those that were killed went without having asked.
if grep -lE '"event":"(excluded|non_primary)"' "$work"/m*.err; then fail "a member that lived was disturbed"; fi
lost=$(grep -hoE '"name":"[^"]*","reason":"[^"]*"' "$work"/m*.err | grep -v '"reason":"left"' |
  sed 's/"name":"\([^"]*\)".*/\1/' | sort -u | xargs)
[ "$lost" = "h2 h4" ] || fail "these were lost, and h2 and h4 were killed: $lost"
harness end
for host in 1 2 3 4 5; do signal "${now[$host]}" TERM; done
for host in 1 2 3 4 5; do wait "${pid_of[${now[$host]}]}" || fail "h$host ended with exit code $?"; done
check_traces --one-instance
