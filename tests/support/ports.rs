//! Free ports for programs that a test starts and that bind them shortly after.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// First port of the range: above the ports of Ray's workers (10002 to 19999) and below the ephemeral range (from 32768
/// on Linux), so that no other test's socket takes one in the meantime.
const FIRST: u16 = 20_100;
/// Number of ports in the range.
const COUNT: u16 = 12_000;

/// Ports of 127.0.0.1 on which nothing listens.
pub fn free_ports<const N: usize>() -> [u16; N] {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Tests run in parallel, each in its own process.
    let mine = (std::process::id() % 300) as u16 * 40;
    std::array::from_fn(|_| {
        loop {
            let port = FIRST + (mine + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                return port;
            }
        }
    })
}
