//! Chance that nobody can guess, for keys and for names that others must not meet; [`super::random`] is the other kind.

use std::fs::File;
use std::io::{self, Read};

/// So many bytes of the kernel's.
pub(super) fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut all = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut all)?;
    Ok(all)
}
