# Sourced by `build` and `run` of a JVM peer: fetches what its pom.xml names, compiles harness/ and peer/, starts them.
# shellcheck shell=bash

harness=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# build_jvm_peer HERE [DIR]
build_jvm_peer() {
  local here=$1 repo peer dir stamp said
  peer=$(basename "$here")
  repo=$(cd "$here/../../.." && pwd)
  # Absolute, as Maven takes a path to begin where its pom.xml is.
  dir=$(realpath -m "${2:-${PHALANX_PEERS_DIR:-$repo/target/peers}/$peer}")
  stamp=$(cat "$here/pom.xml" "$harness"/*.java "$here"/peer/*.java | sha256sum)
  if [[ -f $dir/stamp && $(<"$dir/stamp") == "$stamp" ]] && command -v java >/dev/null; then
    return
  fi
  install_java
  rm -rf "${dir:?}/lib" "$dir/classes" "$dir/stamp"
  mkdir -p "$dir/lib" "$dir/classes"
  echo "$peer: fetching $(sed -n 's|.*<version>\([1-9].*\)</version>|\1|p' "$here/pom.xml" | head -1) from Maven Central" >&2
  # Even a quiet Maven prints colours, so it is heard only when it fails.
  if ! said=$(mvn --quiet --batch-mode --strict-checksums --file "$here/pom.xml" \
    dependency:copy-dependencies -DoutputDirectory="$dir/lib" 2>&1); then
    echo "$said" >&2
    exit 1
  fi
  javac -Xlint:all,-serial -Werror -d "$dir/classes" -cp "$dir/lib/*" "$harness"/*.java "$here"/peer/*.java
  echo "$stamp" >"$dir/stamp"
}

install_java() {
  local missing=()
  command -v javac >/dev/null || missing+=(openjdk-17-jdk-headless)
  command -v mvn >/dev/null || missing+=(maven)
  command -v taskset >/dev/null || missing+=(util-linux)
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if [[ $(id -u) -ne 0 ]]; then
    echo "missing, and only root can install them: ${missing[*]}" >&2
    exit 3
  fi
  echo "installing by apt-get: ${missing[*]}" >&2
  apt-get update -qq >&2
  # Releases that have another Java have it under this name.
  if ! apt-cache show "${missing[0]}" >/dev/null 2>&1; then
    missing[0]=default-jdk-headless
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# run_jvm_peer HERE MAIN [ARGS]: replaces this shell by the conductor, which ends what it starts on every exit.
run_jvm_peer() {
  local here=$1 main=$2 repo peer dir
  shift 2
  peer=$(basename "$here")
  repo=$(cd "$here/../../.." && pwd)
  dir=${PHALANX_PEERS_DIR:-$repo/target/peers}/$peer
  if [[ ! -f $dir/stamp ]]; then
    echo "$peer is not built in $dir: run $here/build first" >&2
    exit 1
  fi
  exec java -Xmx64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Djava.net.preferIPv4Stack=true \
    -cp "$dir/classes:$dir/lib/*" "$main" "$@"
}
