# The coordinator, which is the oldest member, is killed: the next one takes over.
# healed
# about: M6 S3 O3 X2 X3 X5
network 5
cell 5
# Ranks are in the order of the view.
oldest=$(stat_of 2 members.0 | tr -d m)
rest=$(without "$oldest")
next=$(stat_of 2 members.1 | tr -d m)
ballots=$(stat_of "$next" counters.ballots)
kill9 "$oldest"
# shellcheck disable=SC2086
await "the others go on as four" in_view "$rest" $rest
for f in $FEEDING; do
  # shellcheck disable=SC2086
  [ "$f" = "$oldest" ] || flows "$f" $rest
done
# shellcheck disable=SC2086
undisturbed $rest
begun() { [ "$(stat_of "$next" counters.ballots)" -gt "$ballots" ]; }
await "the next oldest counts a ballot of its own" begun
# The name comes back as a new incarnation.
member "$oldest"
# shellcheck disable=SC2086
await "the killed one is back" in_view "$ALL" $ALL
# shellcheck disable=SC2086
await "the killed one is back in the group" in_group_view "$ALL" $ALL
# shellcheck disable=SC2086
flows "$FEEDING" $ALL
verdict healed
