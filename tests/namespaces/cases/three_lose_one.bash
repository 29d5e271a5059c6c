# One of three is killed: the pair goes on.
# healed
# about: M6 S3 O3 U1
network 3
cell 3
rest=$(without 1)
kill9 1
# shellcheck disable=SC2086
await "the pair goes on" in_view "$rest" $rest
# shellcheck disable=SC2086
flows "2 3" $rest
# shellcheck disable=SC2086
undisturbed $rest
verdict healed
