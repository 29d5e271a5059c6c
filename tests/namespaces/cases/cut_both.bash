# A member that is cut off both ways reports NonPrimary, the others go on, and it comes back after healing.
# healed
# about: M6 M8 S3 O3 U1 U2 X3 X5
network 5
cell 5
rest=$(without 3)
# shellcheck disable=SC2046,SC2086
cut $(both 3 $rest)
await "member 3 tells that it is not primary" told 3 non_primary
# shellcheck disable=SC2086
await "the others go on as four" in_view "$rest" $rest
# shellcheck disable=SC2086
flows "1 2" $rest
never excluded 3
heal
back 3
# shellcheck disable=SC2086
flows "1 2 3" $ALL
# shellcheck disable=SC2086
undisturbed $rest
verdict healed
