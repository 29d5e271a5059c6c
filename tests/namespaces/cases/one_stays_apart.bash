# A member that stays cut off for good: the others are one view without it, and lines flow among them.
# healed in part
# about: M6 S3 O3 U1 V7 V13
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
# shellcheck disable=SC2086
undisturbed $rest
# shellcheck disable=SC2086
verdict healed $rest
never excluded 3
