#!/usr/bin/env bash
# Five hosts; two are cut off and come back. The majority goes on, and the minority reports that it does not.
. "$(dirname "${BASH_SOURCE[0]}")/../lib/namespaces.sh"

# about: E1 M1 M2 M3 M5 M6 M8 S1 S2 S3 S5 S6 S7 I1 I2 I3 O1 O3 O4 O5 U1 X3 X5
harness create
harness about $(sed -n 's/^# about: //p' "$0")
harness faulty

hosts 5
for host in 1 2 3 4 5; do
  # Uniform, so that no member prints a line that the others might never see.
  start "h$host" "$host" "$PHALANX" cat -g field --uniform $(settings "$host" h1,h2,h3,h4,h5)
done
for host in 1 2 3 4 5; do await_group "h1 h2 h3 h4 h5" "$work/h$host.err"; done
say h1 "all are here"
for host in 1 2 3 4 5; do await "all are here" "$work/h$host.out"; done

cut "1 2" "3 4 5"
for host in 1 2; do await "NOT in the primary partition" "$work/h$host.err"; done
for host in 3 4 5; do await "h1 (unreachable)" "$work/h$host.err"; await "h2 (unreachable)" "$work/h$host.err"; done
for line in $(seq 1 200); do
  say "h$((3 + line % 3))" "majority $line"
  # The next sender has printed the first lines before it sends, however busy the machine is, so each line is in the
  # causal past of the following one.
  [ "$line" -gt 6 ] || await "majority $line" "$work/h$((3 + (line + 1) % 3)).out"
done
for host in 3 4 5; do
  for line in 198 199 200; do await "majority $line" "$work/h$host.out"; done
done
for host in 1 2; do
  if grep -q majority "$work/h$host.out"; then fail "h$host printed what it cannot have heard"; fi
done

heal
for host in 1 2; do await "excluded: " "$work/h$host.err"; done
say h5 "together again"
for host in 1 2 3 4 5; do await "together again" "$work/h$host.out"; done
for host in 2 3 4 5; do
  cmp "$work/h1.out" "$work/h$host.out" || fail "h1 and h$host printed different lines"
done

harness end
for host in 1 2 3 4 5; do signal "h$host" TERM; done
for host in 1 2 3 4 5; do wait "${pid_of[h$host]}" || fail "h$host ended with $?"; done
check_traces --one-instance
