#!/usr/bin/env bash
# Reads capture files with tshark, with the dissector dissector/phalanx.lua, and with tcpdump (docs/captures.md).
#
#   tests/dissector.sh PROGRAM PHALANX [MUTATED]   PROGRAM is the built example golden_captures of phalanx-tap, PHALANX the
#                                                  built command; 4000 if not given
#
# PROGRAM writes files of all golden vectors, and two with so many broken packets each. Exit code 0: all is read as it should
# be. 1: not. 2: wrong usage. 77: tshark or tcpdump is not here, and nothing was tested.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '4s/^# *//p' "$0" >&2; exit 2; }
program=$(realpath "$1")
phalanx=$(realpath "$2")
mutated=${3:-4000}
for tool in tshark tcpdump; do
  PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null || {
    echo "SKIPPED: tests/dissector.sh needs $tool (the package $tool)"
    exit 77
  }
done
PATH=$PATH:/usr/sbin
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; exit 1; }

# The dissector is installed as for a user, without the user's own settings.
export HOME=$work/home
unset WIRESHARK_CONFIG_DIR WIRESHARK_PLUGIN_DIR XDG_CONFIG_HOME XDG_DATA_HOME
plugins=$HOME/.local/lib/wireshark/plugins
mkdir -p "$plugins"
cp dissector/phalanx.lua "$plugins"

# show FILE OPTION...: what tshark prints of a file. It must not complain, but about root.
show() {
  local file=$1
  shift
  timeout 300 tshark -o udp.try_heuristic_first:TRUE -r "$work/$file.pcapng" "$@" 2>"$work/stderr" ||
    { cat "$work/stderr"; fail "tshark ended with $? on $file"; }
  ! grep -v '^Running as user "root"' "$work/stderr" || fail "tshark complains about $file"
}

"$program" "$work" "$mutated" >"$work/list"
for file in ipv4 ipv6 unsealed clear mutated datagrams; do
  [ "$(stat -c %a "$work/$file.pcapng")" = 600 ] || fail "others may read $file"
done

# Which field of which packet has which value. A packet is named by its vector; values that a field has several times stand
# between bars.
cat >"$work/expected" <<'EOF'
ipv4 sealed/greeting frame.time_epoch 1700000000.000000001
ipv4 sealed/greeting frame.interface_name data sealed 10.0.0.1:7000
ipv4 sealed/greeting frame.p2p_dir 1
ipv4 sealed/direct frame.p2p_dir 0
ipv4 sealed/direct frame.interface_name control sealed 10.0.0.1:7000
ipv4 sealed/direct ip.src 10.0.0.1
ipv4 sealed/direct udp.dstport 7000
ipv4 sealed/multicast phalanx.version 3
ipv4 sealed/multicast phalanx.kind 6
ipv4 sealed/multicast phalanx.cell_tag dd56de
ipv4 sealed/multicast phalanx.sender 0x0102030405060708
ipv4 sealed/multicast phalanx.sender.name sender
ipv4 sealed/multicast phalanx.space 0x21222324
ipv4 sealed/multicast phalanx.number 3544952156018063160
ipv4 sealed/multicast phalanx.group ledger
ipv4 sealed/multicast phalanx.group.view 3
ipv4 sealed/multicast phalanx.sender.rank 1
ipv4 sealed/multicast phalanx.tag 01bf4e477f81aa3f23e420b02c394836
ipv4 sealed/multicast _ws.col.Info multicast sender ledger/3 #3544952156018063160: 29 B sealed
ipv6 sealed/greeting frame.interface_name data sealed [fd00::1]:7000
ipv6 sealed/greeting ipv6.src fd00::2
ipv6 sealed/data phalanx.kind 5
unsealed stream/stability phalanx.stability.prefix 290
unsealed stream/stability phalanx.checksum 0x34170c4b
unsealed stream/ask_of_ranks_0_and_9 phalanx.message.asks 1
unsealed stream/to_domain_1 phalanx.message.domain 1
unsealed stream/to_domain_1 phalanx.message.asks 0
unsealed control/fetch _ws.col.Info control sender space 21222324 #45: fetch
clear greeting/probe phalanx.front.peer 10.0.0.1:7000
clear greeting/probe phalanx.front.peer.name sender
clear greeting/probe phalanx.front.sent 0
clear greeting/probe phalanx.front.control 1
clear greeting/probe phalanx.front.memory 0
clear greeting/probe phalanx.greeting 0
clear greeting/probe phalanx.data_address 127.0.0.1:1000
clear greeting/probe phalanx.dest 0x0000000000000000
clear greeting/probe_of_a_member phalanx.front.memory 1
clear greeting/probe_of_a_member phalanx.front.peer [fd00::1]:7000
clear greeting/probe_of_a_member phalanx.front.peer.name sender
clear greeting/challenge phalanx.front.peer [2001:db8::1:0:0:1]:1
clear greeting/probe_of_a_member phalanx.instance 0x0000000000000007
clear greeting/challenge phalanx.cookie 5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a
clear greeting/differs phalanx.name limits.watchers
clear greeting/differs _ws.col.Info greeting sender space 21222324 #7: refusal: a setting differs
clear greeting/held_back phalanx.refusal.wait 4000
clear unrepaired/receipt_stream phalanx.ack.space 0x0000000000000009
clear unrepaired/receipt_stream phalanx.ack.wants_status 1
clear unrepaired/receipt_stream phalanx.ack.prefix 300
clear unrepaired/receipt_stream phalanx.ack.limit 812
clear unrepaired/receipt_stream phalanx.ack.gap 302 to 303|310 to 320
clear unrepaired/receipt_stream _ws.col.Info spread sender space 21222324 #9: ack of ledger/3 up to 300 with gaps
clear unrepaired/status phalanx.status.blocked 1
clear unrepaired/status phalanx.status.stable 290
clear unrepaired/heartbeat phalanx.heartbeat.hears 05
clear unrepaired/heartbeat_of_a_large_cell phalanx.heartbeat.digest 0x3132333435363738
clear unrepaired/claim phalanx.rank 4|2|0|5
clear unrepaired/complaint phalanx.slow_report.excused 1
clear unrepaired/answer_of_20_bytes phalanx.probe.answer 1
clear unrepaired/findings_from_level_5 phalanx.incarnation 0x3132333435363738
clear unrepaired/exclusion phalanx.dest.name dest 100%
clear unrepaired/exclusion phalanx.view 6
clear stream/causal_with_dependencies phalanx.growth 1|2
clear stream/causal_with_dependencies phalanx.message 626f6479
clear stream/causal_with_dependencies phalanx.rank 0|300
clear stream/total_placed_uniform phalanx.message.order 3
clear stream/total_placed_uniform phalanx.message.uniform 1
clear stream/first_piece phalanx.message.piece 1
clear stream/first_piece phalanx.message.len 1048576
clear stream/announcement phalanx.tenure 3
clear stream/announcement phalanx.abcasts 2|1
clear stream/token_pass phalanx.token.next 4
clear stream/past phalanx.frame.name past
clear control/wedge_to_fill phalanx.holder 0x0000000000000001|0x0000000000000003
clear control/welcome phalanx.instance 0x00000000c0ffee00
clear control/welcome phalanx.control 6
clear control/fetch phalanx.fetch.last 300
clear control/unreadable phalanx.unreadable.next 0|1
clear control/wedge_with_tail phalanx.tail.entry 6c61746572
clear founding/refuse_names _ws.col.Info control sender space 21222324 #59: founding: refusal: other names
clear founding/ask phalanx.founding 0
clear orphans/report phalanx.group_id 1|2|300
clear state/replay phalanx.replay.number 12
clear state/chunk phalanx.snapshot.offset 128
clear views/begin phalanx.view 300
clear domains/said phalanx.domain.version 1|300
clear domains/said phalanx.domain.optional 0|1
clear domains/begin phalanx.domain.version 1|300
clear domains/replay phalanx.replay.domain 1
clear domains/replay_view phalanx.name m1||prices
clear calls/ask phalanx.session_index 5
clear calls/opened phalanx.slots 8
clear calls/refused phalanx.call.refusal 1
clear calls/request phalanx.slot 3
clear calls/request phalanx.call 300
clear calls/request phalanx.response_credit 4096
clear calls/answer_refusal phalanx.call.refusal 98
clear calls/receipt_for_an_answer phalanx.fragment_ack.seen 9
clear calls/challenge phalanx.challenge 0x0000010000000000
clear more/all_frames phalanx.frames 13
clear to_one/message phalanx.to_one.since 290
clear to_one/message phalanx.to_one.growth 2|1
clear to_one/report phalanx.to_one.granted 262144
clear to_one/last_report phalanx.to_one.delivered 300
clear more/two_messages _ws.col.Info control sender space 21222324 #124: leave; out
clear more/first_piece phalanx.piece.whole 200
clear more/application phalanx.data.content 0
clear more/application phalanx.message 68656c6c6f
clear more/request _ws.col.Info plain sender space 21222324 #128: request 300, 4 B
clear more/answer_piece phalanx.call.fragment 7
clear more/of_a_later_build phalanx.frame.unknown 616263
EOF

for file in ipv4 ipv6 unsealed clear; do
  preferences=()
  [ $file != unsealed ] || preferences=(-o phalanx.unsealed:TRUE)
  columns=(-e frame.number -e phalanx.kind)
  while read -r column; do columns+=(-e "$column"); done < <(sed -n "s/^$file [^ ]* \([^ ]*\) .*/\1/p" "$work/expected" | sort -u)
  show $file "${preferences[@]}" -T fields -E header=y -E 'aggregator=|' "${columns[@]}" >"$work/$file.fields"
done

# The names of the kinds, the numbers of packets, and all that is expected.
awk -F '\t' -v work="$work" '
  function wrong(text) { print "FAILED: " text; failed = 1 }
  BEGIN {
    split("greeting direct spread control data multicast open session plain to-one", names, " ")
    split("ipv4 ipv6 unsealed clear", files, " ")
    for (i in files) {
      file = files[i]
      path = work "/" file ".fields"
      getline <path
      count = split($0, columns, "\t")
      while ((getline <path) > 0) for (c = 1; c <= count; c++) value[file, $1, columns[c]] = $c
    }
    while ((getline <(work "/list")) > 0) {
      if (!(($1, $4) in number)) number[$1, $4] = $2
      if (names[value[$1, $2, "phalanx.kind"]] != $3) wrong($1 " " $4 " is of kind " value[$1, $2, "phalanx.kind"])
      packets++
    }
    if (packets < 200) wrong("only " packets + 0 " packets were read")
    FS = " "
    while ((getline <(work "/expected")) > 0) {
      what = $1 " " $2 " " $3
      expected = substr($0, length(what) + 2)
      if (!(($1, $2) in number)) wrong("no packet " what)
      got = value[$1, number[$1, $2], $3]
      if (got != expected) wrong(what " is \"" got "\", not \"" expected "\"")
    }
    exit failed
  }'

# All vectors make sense, but for the text in the place of a recovered packet's frames.
for file in unsealed clear; do
  preferences=()
  [ $file != unsealed ] || preferences=(-o phalanx.unsealed:TRUE)
  show $file "${preferences[@]}" -Y 'phalanx.malformed or phalanx.cut' -T fields -e frame.number >"$work/odd"
  awk -v file="$file" '$1 == file && $4 == "control/recovered" { print $2 }' "$work/list" | diff - "$work/odd" ||
    fail "these packets of $file are malformed, or should be"
done

# tcpdump reads sealed packets, checks both checksums, and filters.
timeout 60 tcpdump -nr "$work/ipv4.pcapng" --nano -tt -v >"$work/dumped" 2>"$work/stderr" || { cat "$work/stderr"; fail "tcpdump"; }
[ "$(grep -c '> 10.0.0.[12].7000:' "$work/dumped")" = 6 ] || { cat "$work/dumped"; fail "tcpdump does not read all of ipv4"; }
grep -q '^1700000001.000000002 IP ' "$work/dumped" || fail "the time of a packet"
! grep -i 'bad' "$work/dumped" || fail "a checksum of IPv4"
timeout 60 tcpdump -nr "$work/ipv6.pcapng" -v >"$work/dumped" 2>"$work/stderr" || { cat "$work/stderr"; fail "tcpdump"; }
[ "$(grep -c 'udp sum ok' "$work/dumped")" = 6 ] || { cat "$work/dumped"; fail "a checksum of UDP"; }
[ "$(timeout 60 tcpdump -nr "$work/ipv4.pcapng" src host 10.0.0.1 and udp dst port 7000 2>/dev/null | wc -l)" = 4 ] ||
  fail "a filter of tcpdump"

# Broken packets: each is shown, some as malformed, and the script has no error of its own.
show mutated -T fields -e frame.number -e phalanx.kind -e _ws.expert.message >"$work/mutated.out"
[ "$(wc -l <"$work/mutated.out")" = "$mutated" ] || fail "not all broken packets are shown"
[ "$(grep -c Malformed "$work/mutated.out")" -gt $((mutated / 4)) ] || fail "few broken packets are malformed"
[ "$(grep -c 'does not hold the whole' "$work/mutated.out")" -gt $((mutated / 20)) ] || fail "few broken packets are cut"
! grep -m 3 'Lua Error' "$work/mutated.out" || fail "an error in the script"
# With all that Wireshark shows of them, and in two passes.
show mutated -V -2 >"$work/mutated.out"
! grep -m 3 'Lua Error' "$work/mutated.out" || fail "an error in the script"
[ "$(grep -c '^Phalanx' "$work/mutated.out")" = "$mutated" ] || fail "not all broken packets are shown whole"

# As datagrams, also those that are too short, and with the frames that they do not have if they are sealed.
for preference in FALSE TRUE; do
  show datagrams -d udp.port==7000,phalanx -o "phalanx.unsealed:$preference" -T fields -e phalanx.kind -e _ws.expert.message \
    >"$work/mutated.out"
  ! grep -m 3 'Lua Error' "$work/mutated.out" || fail "an error in the script"
  [ "$(grep -c '^[1-9]' "$work/mutated.out")" -gt $((mutated / 2)) ] || fail "few broken datagrams are shown"
done

# What simulated cells send, in clear and as datagrams: all of it is understood, and it is the same packets.
simulated=0
for seed in 7 11; do
  for form in clear sealed; do
    "$phalanx" sim --seeds "$seed..$((seed + 1))" --tap "$work/seed.$form.pcapng" --tap-form "$form" >"$work/told" 2>&1 ||
      { cat "$work/told"; fail "seed $seed"; }
    show "seed.$form" -T fields -e frame.time_epoch -e phalanx.kind -e phalanx.sender -e phalanx.space -e phalanx.number \
      >"$work/seed.$form.out"
    ! grep -m 3 -P '\t\t|\t$' "$work/seed.$form.out" || fail "seed $seed has packets that are not understood"
    [ -z "$(show "seed.$form" -Y 'phalanx.malformed or phalanx.unknown')" ] ||
      fail "seed $seed has packets that the dissector does not understand"
  done
  cmp "$work/seed.clear.out" "$work/seed.sealed.out" || fail "seed $seed sent other packets in clear and sealed"
  simulated=$((simulated + $(wc -l <"$work/seed.clear.out")))
  grep -q " $(wc -l <"$work/seed.sealed.out") packets in " "$work/told" || fail "seed $seed tells another number of packets"
  [ "$(tcpdump -nr "$work/seed.sealed.pcapng" 2>/dev/null | wc -l)" = "$(wc -l <"$work/seed.sealed.out")" ] ||
    fail "tcpdump reads other packets of seed $seed"
  rm "$work/seed.clear.pcapng" "$work/seed.sealed.pcapng"
done
[ "$simulated" -gt 10000 ] || fail "only $simulated simulated packets"

# This test sees an error in the script: here in what reads malformed numbers.
sed 's/^local function malformed() .*/local function malformed() return nil + 1 end/' dissector/phalanx.lua >"$plugins/phalanx.lua"
! cmp -s dissector/phalanx.lua "$plugins/phalanx.lua" || fail "the script has no function malformed() any more"
show mutated -c 200 -T fields -e _ws.expert.message >"$work/mutated.out"
grep -q 'Lua Error' "$work/mutated.out" || fail "an error in the script was not seen"

echo "$(wc -l <"$work/list") packets, $(wc -l <"$work/expected") fields, $mutated broken and $simulated simulated packets: read as they should be"
