# A member that hears no other, though it is heard, reports NonPrimary, is excluded, and comes back after healing.
# healed
# about: M6 M8 S3 O3 U1 U2 X3 X5
network 5
cell 5
rest=$(without 1)
links=()
for i in $rest; do links+=("$i>1"); done
cut "${links[@]}"
await "member 1 tells that it is not primary" told 1 non_primary
# shellcheck disable=SC2086
await "the others go on as four" in_view "$rest" $rest
# shellcheck disable=SC2086
flows "2 3" $rest
never excluded 1
heal
back 1
# shellcheck disable=SC2086
flows "1 2 3" $ALL
# shellcheck disable=SC2086
undisturbed $rest
verdict healed
