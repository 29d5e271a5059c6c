# shellcheck shell=bash disable=SC2034
# Shared by `build` and `run` of the native peers; sourced, never run. The contract they follow is in ../README.md.
set -euo pipefail

peer_dir=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)
peer=${peer_dir##*/}
lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$lib/../../.." && pwd)
built=${PHALANX_PEERS_DIR:-$repo/target/peers}/$peer

say() { printf '%s: %s\n' "$peer" "$*" >&2; }
die() { say "$*"; exit 1; }
cannot() { say "$*"; exit 3; }

# --- build ---

# need_packages NAME=UPSTREAM_VERSION...: Debian packages (an empty version: any). A security update of Debian changes
# only the revision behind the upstream version, so that part is not pinned: the old revision would vanish from the mirror.
need_packages() {
  local want name version have missing=() undo='' unit
  command -v dpkg-query > /dev/null || cannot "needs the Debian packages ${*%%=*}: this system is not Debian"
  for want; do
    have=$(package_version "${want%%=*}")
    [[ -n $have ]] || missing+=("${want%%=*}")
  done
  if ((${#missing[@]})); then
    ((EUID == 0)) || cannot "needs Debian packages; as root: apt-get install --no-install-recommends ${missing[*]}"
    say "installs the Debian packages ${missing[*]}"
    # Some of them bring a service. It is not wanted: each run starts its own daemons.
    if [[ ! -e /usr/sbin/policy-rc.d ]]; then
      undo=/usr/sbin/policy-rc.d
      printf '#!/bin/sh\nexit 101\n' > "$undo"
      chmod 755 "$undo"
    fi
    if ! apt_install "${missing[@]}"; then
      rm -f "$undo"
      cannot "apt-get could not install ${missing[*]}; see above"
    fi
    rm -f "$undo"
    for name in "${missing[@]}"; do
      unit=/lib/systemd/system/$name.service
      if [[ -e $unit ]] && command -v systemctl > /dev/null; then
        systemctl disable --quiet "$name" >&2 || say "could not disable the service $name; do it by hand"
      fi
    done
  fi
  for want; do
    name=${want%%=*} version=${want#*=}
    have=$(package_version "$name")
    [[ -n $version && ${have%-*} != "$version" ]] || continue
    [[ ${PHALANX_PEERS_ANY_VERSION:-0} == 1 ]] ||
      cannot "wants $name $version, this system has $have; PHALANX_PEERS_ANY_VERSION=1 takes it all the same"
  done
}

package_version() {
  local line
  line=$(dpkg-query -W -f '${db:Status-Abbrev} ${Version}' "$1" 2> /dev/null) || return 0
  [[ $line != ii* ]] || printf '%s\n' "${line##* }"
}

apt_install() {
  local command=(apt-get -o DPkg::Lock::Timeout=120 -o APT::Get::Assume-Yes=1 -qq)
  export DEBIAN_FRONTEND=noninteractive
  "${command[@]}" update >&2 && "${command[@]}" install --no-install-recommends "$@" >&2
}

# newer TARGET SOURCE...: is the target there and none of the sources newer?
newer() {
  local target=$1 source
  shift
  [[ -e $target ]] || return 1
  for source; do
    [[ ! $source -nt $target ]] || return 1
  done
}

# build_c VERSION LIBRARY_FLAGS...: one C program, $built/bench, from $peer_dir/bench.c.
build_c() {
  local version=$1
  shift
  mkdir -p "$built"
  newer "$built/bench" "$peer_dir/bench.c" "$lib/bench.h" ||
    gcc -std=gnu17 -O2 -g -D_GNU_SOURCE -Wall -Wextra -I "$lib" -o "$built/bench" "$peer_dir/bench.c" "$@" ||
    die "gcc failed; see above"
  printf '%s\n' "$version" > "$built/version"
}

# build_rust CRATE: one Rust program, $built/bench, and the version of the crate it measures.
build_rust() {
  local version
  command -v cargo > /dev/null || cannot "needs cargo (Rust 1.90 or newer)"
  mkdir -p "$built"
  [[ -e $built/bench ]] || say "builds from crates.io as $peer_dir/Cargo.lock says; this takes some minutes"
  CARGO_TARGET_DIR=$built/target \
    cargo build --quiet --release --locked --manifest-path "$peer_dir/Cargo.toml" >&2 || die "cargo failed; see above"
  install -C "$built/target/release/bench-$peer" "$built/bench"
  version=$(sed -n "/^name = \"$1\"\$/{n;s/^version = \"\(.*\)\"\$/\1/p;q}" "$peer_dir/Cargo.lock")
  printf '%s\n' "$version" > "$built/version"
}

# The one argument of every `build`.
parse_build() {
  if (($# > 1)) || [[ ${1:-} == -* ]]; then
    printf 'usage: %s/build [DIR]\n' "$peer_dir" >&2
    exit 2
  fi
  [[ -z ${1:-} ]] || { mkdir -p "$1"; built=$(cd "$1" && pwd); }
}

# --- run ---

# A peer's `run` defines variants(): lines of NAME<TAB>MODES<TAB>WHAT IT IS, the first of them the default; and sets
# stream_max, pingpong_max and answer_max (bytes), senders_known, waits_known where they differ from these.
stream_max=1000000 pingpong_max=1000000 answer_max=0
senders_known='one all' waits_known=block

usage() {
  cat >&2 <<END
usage: run stream --size BYTES --receivers R --senders one|all --seconds S [--variant NAME]
       run pingpong --size BYTES --seconds S --wait block|spin --cores one|two [--servers N] [--answer BYTES] [--variant NAME]
       run variants
The variants of $peer:
$(variants)
END
  exit 2
}
misuse() { say "$*"; usage; }

is_count() { [[ $1 =~ ^[0-9]{1,8}$ ]] && ((10#$1 >= $2 && 10#$1 <= $3)); }
is_one_of() { [[ " $2 " == *" $1 "* ]]; }

# Sets mode, size, receivers, senders, seconds, wait_kind, cores, servers, answer, variant.
parse_run() {
  local name modes rest
  mode=${1:-} size='' receivers='' senders='' seconds='' wait_kind='' cores='' servers=1 answer=0 variant=''
  case $mode in
    variants) (($# == 1)) || usage; variants; exit 0 ;;
    stream | pingpong) shift ;;
    help | -h | --help) usage ;;
    *) misuse "the first argument is stream, pingpong or variants" ;;
  esac
  while (($#)); do
    (($# >= 2)) || misuse "$1 wants a value"
    case $mode$1 in
      *--size) size=$2 ;;
      *--seconds) seconds=$2 ;;
      *--variant) variant=$2 ;;
      stream--receivers) receivers=$2 ;;
      stream--senders) senders=$2 ;;
      pingpong--wait) wait_kind=$2 ;;
      pingpong--cores) cores=$2 ;;
      pingpong--servers) servers=$2 ;;
      pingpong--answer) answer=$2 ;;
      *) misuse "$mode does not know $1" ;;
    esac
    shift 2
  done
  [[ $seconds =~ ^[0-9]{1,3}(\.[0-9]{1,3})?$ && ! $seconds =~ ^[0.]*$ ]] || misuse "--seconds wants a number above 0, below 1000"
  if [[ $mode == stream ]]; then
    is_count "$size" 1 "$stream_max" || misuse "--size wants a number from 1 to $stream_max"
    is_count "$receivers" 1 16 || misuse "--receivers wants a number from 1 to 16"
    [[ $senders == one || $senders == all ]] || misuse "--senders wants one or all"
    is_one_of "$senders" "$senders_known" || misuse "does --senders $senders_known only"
  else
    is_count "$size" 1 "$pingpong_max" || misuse "--size wants a number from 1 to $pingpong_max"
    is_count "$servers" 1 16 || misuse "--servers wants a number from 1 to 16"
    is_count "$answer" 0 "$answer_max" || misuse "--answer wants a number from 0 to $answer_max"
    [[ $wait_kind == block || $wait_kind == spin ]] || misuse "--wait wants block or spin"
    is_one_of "$wait_kind" "$waits_known" || misuse "does --wait $waits_known only"
    [[ $cores == one || $cores == two ]] || misuse "--cores wants one or two"
    [[ $cores == one || $(nproc --all) -ge 2 ]] || cannot "--cores two needs two processors"
  fi
  while IFS=$'\t' read -r name modes rest; do
    [[ -n $variant ]] || ! is_one_of "$mode" "${modes//,/ }" || variant=$name
    [[ $variant != "$name" ]] || break
  done < <(variants)
  [[ -n $variant ]] || misuse "does no $mode"
  [[ $variant == "$name" ]] || misuse "no variant is called $variant"
  is_one_of "$mode" "${modes//,/ }" || misuse "the variant $variant does $modes, not $mode"
  size=$((10#$size)) servers=$((10#$servers)) answer=$((10#$answer)) receivers=${receivers:+$((10#$receivers))}
  [[ -x $built/bench && -s $built/version ]] || die "not built in $built; run $peer_dir/build, or set PHALANX_PEERS_DIR"
}

child='' work=''
# A peer may define its own: how to end $child, and what is left to remove beside the directory $work.
end_child() { kill -TERM "$child" 2> /dev/null || :; }
clean_up() { :; }

finish() {
  local code=$?
  trap '' TERM INT HUP
  trap - EXIT
  if [[ -n $child ]]; then
    end_child
    wait "$child" 2> /dev/null || :
  fi
  # The whole family of the run holds this lock; whoever ends because its parent did may need a moment.
  [[ ! -e $work/alive ]] || flock --wait 5 "$work/alive" true || say "a process of the run did not end"
  clean_up || :
  [[ -z $work ]] || rm -rf -- "$work"
  exit "$code"
}

# Makes the run's own directory and sees to it that nothing outlives the run.
begin() {
  trap finish EXIT
  trap 'exit 143' TERM
  trap 'exit 130' INT
  trap 'exit 129' HUP
  work=$(mktemp -d "${TMPDIR:-/tmp}/phalanx-$peer.XXXXXX")
  export BENCH_DIRECTORY=$work
}

# supervise COMMAND...: runs it in the background, so that a signal to this shell is heard at once; what it measured
# (the inner part of a JSON object, one line) goes to $work/measured.
supervise() {
  local code=0
  { exec 9> "$work/alive"; flock 9; exec "$@"; } > "$work/measured" &
  child=$!
  wait "$child" || code=$?
  child=''
  ((code == 0)) || die "the run failed (exit code $code); see above"
}

# report GUARANTEE NOTES: the one line of JSON. The texts are ours and hold nothing to escape.
report() {
  local measured
  measured=$(< "$work/measured")
  [[ -n $measured && $measured != *$'\n'* ]] || die "the run measured nothing"
  printf '{"peer":"%s","version":"%s","variant":"%s","mode":"%s",%s,"guarantee":"%s","notes":"%s"}\n' \
    "$peer" "$(< "$built/version")" "$variant" "$mode" "$measured" "$1" "$2"
}

# run_bench [PREFIX...]: the peer's program with the arguments of this run.
run_bench() {
  if [[ $mode == stream ]]; then
    supervise "$@" "$built/bench" stream "$variant" "$size" "$seconds" "$receivers" "$senders"
  else
    supervise "$@" "$built/bench" pingpong "$variant" "$size" "$seconds" "$servers" "$cores" "$wait_kind" "$answer"
  fi
}
