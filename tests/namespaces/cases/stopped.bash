# A member stopped for half a minute is excluded, is notified of that when it runs again, and comes back.
# healed
# about: M6 M8 S3 O3 U1 V9 X3 X5
network 5
cell 5
rest=$(without 3)
seconds=30
[ "$QUICK" = 0 ] || seconds=5
id=$(incarnation 3)
kill -STOP "${PID[3]}"
await "all threads of member 3 are stopped" all_stopped 3
harness stop "$id"
note "stopped 3"
sleep $seconds
# shellcheck disable=SC2086
await "the others go on as four" in_view "$rest" $rest
# shellcheck disable=SC2086
flows "1 2" $rest
harness cont "$id"
kill -CONT "${PID[3]}"
note "continued 3"
back 3
# shellcheck disable=SC2086
flows "1 2 3" $ALL
# shellcheck disable=SC2086
undisturbed $rest
verdict healed
