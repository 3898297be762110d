#!/bin/sh
# Builds one package of this workspace inside an image build, for the architecture TARGETARCH. The compiler
# runs on the builder's own architecture: nothing is emulated.
#   build.sh toolchain            installs what a builder image lacks for TARGETARCH
#   build.sh dependencies PACKAGE PROFILE    builds the crates that PACKAGE needs, before its sources are here
#   build.sh package PACKAGE PROFILE         builds PACKAGE
#   build.sh libraries DIRECTORY  copies the loader and the libraries that a Rust program needs
# RUSTFLAGS counts for the package and for its dependencies, not for what runs while it is built.
set -eu

case "$TARGETARCH" in
  amd64) machine=x86_64 debian=x86-64 libc=libc6-dev-amd64-cross loader=/lib64/ld-linux-x86-64.so.2 ;;
  arm64) machine=aarch64 debian=aarch64 libc=libc6-dev-arm64-cross loader=/lib/ld-linux-aarch64.so.1 ;;
  *) echo "no image is built for the architecture $TARGETARCH, only for amd64 and arm64" >&2; exit 1 ;;
esac
target=$machine-unknown-linux-gnu
compiler=$machine-linux-gnu-gcc
variable=$(echo "CARGO_TARGET_${target}_LINKER" | tr 'a-z-' 'A-Z_')
export "$variable=$compiler"

toolchain() {
  if ! command -v "$compiler" > /dev/null; then
    apt-get update
    apt-get install --yes --no-install-recommends "gcc-$debian-linux-gnu" "$libc"
    rm -rf /var/lib/apt/lists/*
  fi
  [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || rustup target add "$target"
}

build() {
  cargo build --locked --package "$1" --bin "$1" --profile "$2" --target "$target"
}

# Cargo wants a program or a library of every member of the workspace.
placeholders() {
  for manifest in */Cargo.toml */*/Cargo.toml; do
    sources=$(dirname "$manifest")/src
    mkdir -p "$sources"
    echo '//! Nothing yet.' | tee "$sources/lib.rs" > "$sources/main.rs"
    echo 'fn main() {}' >> "$sources/main.rs"
  done
}

case "$1" in
  toolchain) toolchain ;;
  dependencies) placeholders; build "$2" "$3" ;;
  package)
    # The sources may be older than what was built of their placeholders.
    touch */src/lib.rs */src/main.rs */*/src/lib.rs */*/src/main.rs
    build "$2" "$3"
    install -D -t /output "target/$target/$3/$2"
    ;;
  libraries)
    mkdir -p "$2/lib" "$2$(dirname "$loader")"
    cp -L "$($compiler -print-file-name="$(basename "$loader")")" "$2$loader"
    for library in libc.so.6 libm.so.6 libgcc_s.so.1; do
      cp -L "$($compiler -print-file-name="$library")" "$2/lib/$library"
    done
    ;;
  *) echo "usage: build.sh toolchain | dependencies PACKAGE PROFILE | package PACKAGE PROFILE | libraries DIRECTORY" >&2; exit 2 ;;
esac
