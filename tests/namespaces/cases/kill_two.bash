# Two of five are killed at once: three go on.
# healed
# about: M6 S3 O3 U1 U2
network 5
cell 5
rest=$(without 1 4)
kill9 1 4
# shellcheck disable=SC2086
await "the others go on as three" in_view "$rest" $rest
# shellcheck disable=SC2086
flows "2 3" $rest
# shellcheck disable=SC2086
undisturbed $rest
verdict healed
