# A member that is no longer heard, though it hears the others, is excluded and comes back after healing.
# healed
# about: M6 M8 S3 O3 U4 X3 X5
network 5
cell 5
rest=$(without 2)
links=()
for i in $rest; do links+=("2>$i"); done
cut "${links[@]}"
# shellcheck disable=SC2086
await "the others go on as four" in_view "$rest" $rest
# shellcheck disable=SC2086
flows "1 3" $rest
# It still hears, so the exclusion itself may reach it.
knows() { told 2 non_primary || told 2 excluded; }
await "member 2 tells that it is outside" knows
heal
back 2
# shellcheck disable=SC2086
flows "1 2 3" $ALL
# shellcheck disable=SC2086
undisturbed $rest
verdict healed
