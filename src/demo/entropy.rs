//! Random bytes from the operating system, for keys and unguessable names. [`super::random`] has repeatable ones.

use std::fs::File;
use std::io::{self, Read};

/// Random bytes from the kernel.
pub(super) fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut all = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut all)?;
    Ok(all)
}
