# Two of three are killed at once: the third reports NonPrimary with the reason, and delivers nothing more.
# about: V7
network 3
cell 3
kill9 1 2
await "member 3 tells that it is not primary" told 3 non_primary
told 3 non_primary | head -n 1 | grep '"why":"[^"]\{10,\}"' || fail "member 3 does not say why"
in_ns 3 "$PHALANX" stat --cell "$CELL" --runtime-dir "$WORK/run3" --state-dir "$WORK/state3"
[ $? -eq 5 ] || fail "stat at member 3 does not end with exit code 5"
[ "$(stat_of 3 state)" = non-primary ] || fail "the counters file of member 3 does not say non-primary"
never cell_view 3
# It must stay so for longer than the checker's bound within which it has to report that it is cut off.
sleep 6
never primary 3
verdict
