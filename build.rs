//! Packs the relocations of the program, a tenth of its size, where the dynamic loader can read packed ones (`DT_RELR`).

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name| env::var(name).unwrap_or_default();
    let target = variable("TARGET");
    // Release notes of glibc 2.36. A binary for another machine may meet an older one.
    let is_for_here = target.ends_with("-linux-gnu") && variable("HOST") == target;
    if is_for_here && glibc().is_some_and(|version| version >= (2, 36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this machine's C library.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
