# A stranger without the key floods a member with packets: they are counted and dropped, and nothing else happens.
# healed
# about: I4
network 5
attach 6
helper ip netns exec "${PREFIX}sw" python3 "$tools/capture.py" "$WORK/capture" p1
capture=${HELPERS[-1]}
# The tap sees the packets that member 1 sends, and those it receives.
await "the capture runs" test -e "$WORK/capture"
cell 5

counter() { stat_of 1 "counters.$1"; }
# Counters are written ten times a second.
grew() { [ "$(counter "$1")" -ge "$2" ]; }

# attack KIND COUNT REASON..: the drops for at least these reasons grow, together by at least half of what was sent.
attack() {
  local kind=$1 count=$2 reason sum sent
  local -A was=()
  shift 2
  for reason in "$@"; do was[$reason]=$(counter "$reason"); done
  sent=$(in_ns 6 python3 "$tools/hostile.py" "$(address 1)" $CONTROL $DATA "$CELL" "$WORK/capture" "$kind" "$count") ||
    fail "the attacker failed at $kind"
  taken() {
    sum=0
    for reason in "$@"; do sum=$((sum + $(counter "$reason") - was[$reason])); done
    # Packets that the receive buffer could not hold are lost before they can be counted here.
    [ $sum -ge $((sent / 2)) ]
  }
  await "$kind: half of $sent packets are counted as $*" taken "$@"
  for reason in "$@"; do [ "$(counter "$reason")" -gt "${was[$reason]}" ] || fail "$kind: nothing is counted as $reason"; done
  note "$kind: $sent sent, $sum counted as $*; $(resident_kib 1) KiB resident"
}

flows "1 2 3" 1 2 3 4 5
kill "$capture"
many=$((QUICK == 1 ? 5000 : 40000))
before=$(resident_kib 1)
views=$(counter cell_views)
note "before: $before KiB resident"
harness attack
attack random $many short version kind other_cell
attack nobody 5000 malformed
attack truncated $many short bad_tag
attack damaged $many bad_tag
attack replayed $many replayed bad_tag
attack spoofed $many replayed
attack cleartext 5000 bad_tag
attack other_cell $many other_cell
attack other_version $many version
attack greetings 100000 bad_tag
received=$(counter datagrams_received)
in_ns 6 python3 "$tools/hostile.py" "$(address 1)" $CONTROL $DATA "$CELL" "$WORK/capture" old_greetings $many ||
  fail "the attacker failed at old_greetings"
await "old greetings arrived" grew datagrams_received $((received + many / 2))

# Processes that would join with another key, or under another cell's name, are given a possible reason.
joiner() {
  local name=$1 cell=$2 key=$3 port=$4
  ip netns exec "${PREFIX}6" "$PHALANX" node --json --cell "$cell" --name "$name" --bind "$(address 6)" \
    --control-port "$port" --data-port $((port + 1)) --seeds "$(address 1):$CONTROL" --founders m1,m2,m3,m4,m5 \
    --cell-key "$key" --runtime-dir "$WORK/run-$name" --state-dir "$WORK/state-$name" \
    >"$WORK/$name.lines" 2>"$WORK/$name.told" &
  HELPERS+=($!)
}
hint() { grep '"event":"searching"' "$WORK/$1.lines" | grep key | grep cell | grep version; }
key "$WORK/other.key"
refused=$(counter bad_tag)
foreign=$(counter other_cell)
joiner wrong-key "$CELL" "$WORK/other.key" 7501
joiner wrong-cell "another-cell" "$WORK/cell.key" 7601
for name in wrong-key wrong-cell; do await "$name is told that key, cell or version may differ" hint $name; done
await "the wrong key is counted" grew bad_tag $((refused + 10))
await "the wrong cell is counted" grew other_cell $((foreign + 10))
! grep -h '"event":"cell_view"' "$WORK/wrong-key.lines" "$WORK/wrong-cell.lines" || fail "a stranger is in a view"

after=$(resident_kib 1)
note "after: $after KiB resident"
[ $((after - before)) -lt 8192 ] || fail "member 1 grew from $before KiB to $after KiB"
[ "$(counter cell_views)" = "$views" ] || fail "the cell's view changed"
# shellcheck disable=SC2086
never cell_view $ALL
# shellcheck disable=SC2086
undisturbed $ALL
flows "1 2 3" 1 2 3 4 5
verdict healed
