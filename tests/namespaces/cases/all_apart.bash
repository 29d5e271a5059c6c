# All five are isolated from each other for 10 s. After healing all are in the primary partition again, as before.
# healed
# about: U3 V7
# U3 counts a message that was sent a second after the cut (the checker allows that much between the clocks of two
# records), so nobody may stop sending that soon.
SETTINGS="--set timing.suspect_after=2500ms"
network 5
cell 5
declare -A before=()
for i in $ALL; do before[$i]=$(incarnation "$i"); done
links=()
# shellcheck disable=SC2207,SC2046
for i in $ALL; do links+=($(both "$i" $(seq $((i + 1)) 5))); done
cut "${links[@]}"
for i in $ALL; do await "member $i tells that it is not primary" told "$i" non_primary; done
sleep 10
heal
for i in $ALL; do await "member $i tells that it is primary again" told "$i" primary; done
# shellcheck disable=SC2086
await "all are in one view" in_view "$ALL" $ALL
# shellcheck disable=SC2086
flows "1 2 3" $ALL
# shellcheck disable=SC2086
never excluded $ALL
for i in $ALL; do
  [ "$(incarnation "$i")" = "${before[$i]}" ] || fail "member $i is a new incarnation"
done
verdict healed
