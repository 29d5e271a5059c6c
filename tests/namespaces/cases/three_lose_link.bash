# Two of three are cut off from the third at once: the third reports NonPrimary with the reason, and comes back after
# healing.
# healed
# about: M6 M8 S3 O3 U1 X3 X5
network 3
cell 3
# shellcheck disable=SC2046
cut $(both 1 2 3)
await "member 1 tells that it is not primary" told 1 non_primary
told 1 non_primary | head -n 1 | grep '"why":"[^"]\{10,\}"' || fail "member 1 does not say why"
in_ns 1 "$PHALANX" stat --cell "$CELL" --runtime-dir "$WORK/run1" --state-dir "$WORK/state1"
[ $? -eq 5 ] || fail "stat at member 1 does not end with exit code 5"
await "the pair goes on" in_view "2 3" 2 3
flows "2 3" 2 3
heal
back 1
flows "1 2 3" 1 2 3
undisturbed 2 3
verdict healed
