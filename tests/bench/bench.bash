# shellcheck shell=bash
# The common beginning of the benchmarks. With `--help`, it prints the help of the script that sources it.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}

case " $* " in
*" --help "* | *" -h "*)
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0"
  exit 0
  ;;
esac

mkdir -p "$target/bench/peers"

say() { printf 'bench: %s\n' "$*" >&2; }

# build_peer NAME: builds a program of peers into target/bench/peers.
build_peer() {
  (cd "$here/peers" &&
    CGO_ENABLED=0 go build -mod=readonly -buildvcs=false -trimpath -o "$target/bench/peers/" "./$1")
}

# build_small OPTION…: builds a program into the folder $small, as small as controller-runtime's is: linked statically.
build_small() {
  local host
  host=$(rustc --version --verbose | sed -n 's/^host: //p')
  small=$target/static/$host/small
  RUSTFLAGS="-C target-feature=+crt-static -C relocation-model=static" CARGO_TARGET_DIR=$target/static \
    cargo build --profile small --target "$host" --manifest-path "$root/Cargo.toml" --package kooper-bench "$@"
}
