//! Ports for programs that a test starts, which bind them a moment later.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Where ports are looked for: above those that Ray wants for its workers (10002 to 19999), and below what the system
/// gives to those who ask for any port (from 32768 on Linux), so that no other test's socket takes one meanwhile.
const FIRST: u16 = 20_100;
/// How many of them.
const COUNT: u16 = 12_000;

/// Ports of 127.0.0.1 that nobody listens on.
pub fn free_ports<const N: usize>() -> [u16; N] {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Tests run side by side, each in a process of its own.
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
