//! Detects that the machine was suspended or moved to another network, so that broken connections are found within
//! seconds instead of when their keep-alives give up.

use crate::model::Timestamp;
use crate::task;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Poll interval of the clock and the routes.
const TICK: Duration = Duration::from_secs(1);
/// The wall clock running ahead of the monotonic one by this much means that the machine was suspended.
const MIN_CLOCK_JUMP: Duration = Duration::from_secs(5);

/// Number of suspends and network changes so far; each one means: check every connection.
pub type Wakes = watch::Receiver<u64>;

/// Watches from its own task until every receiver is gone.
pub fn watch_for_wakes() -> Wakes {
    let (tx, rx) = watch::channel(0);
    task::spawn(async move {
        let mut seen = Seen::now();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        while !tx.is_closed() {
            tick.tick().await;
            let now = Seen::now();
            if let Some(why) = now.differs_from(&seen) {
                tracing::info!(why, "checking every connection");
                tx.send_modify(|n| *n += 1);
            }
            seen = now;
        }
    });
    rx
}

struct Seen {
    wall: Timestamp,
    monotonic: Instant,
    route: Option<IpAddr>,
}

impl Seen {
    fn now() -> Self {
        Self { wall: Timestamp::now(), monotonic: Instant::now(), route: outward_address() }
    }

    fn differs_from(&self, before: &Self) -> Option<&'static str> {
        let wall = before.wall.age(self.wall);
        let monotonic = self.monotonic.duration_since(before.monotonic);
        if wall > monotonic + MIN_CLOCK_JUMP || monotonic > TICK + MIN_CLOCK_JUMP {
            return Some("the machine was suspended");
        }
        // Losing the network is no reason to retry; a new or restored one is.
        (self.route.is_some() && self.route != before.route).then_some("the network changed")
    }
}

/// Our own address on the route to the outside. Connecting a UDP socket only consults the routing table; nothing is
/// sent. 192.0.2.1 is a documentation address (RFC 5737); any address beyond the local network would do.
fn outward_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).ok()?;
    socket.connect(("192.0.2.1", 9)).ok()?;
    socket.local_addr().ok().map(|a| a.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(wall_ms: i64, monotonic: Instant, route: Option<[u8; 4]>) -> Seen {
        Seen { wall: Timestamp::from_millis(wall_ms), monotonic, route: route.map(IpAddr::from) }
    }

    #[test]
    fn sleep_and_a_new_network_are_detected() {
        let t = Instant::now();
        let later = t + Duration::from_secs(1);
        let home = Some([10, 0, 0, 2]);
        let before = seen(0, t, home);
        assert_eq!(seen(1_000, later, home).differs_from(&before), None);
        assert_eq!(seen(60_000, later, home).differs_from(&before), Some("the machine was suspended"));
        assert_eq!(
            seen(1_000, later, Some([192, 168, 1, 7])).differs_from(&before),
            Some("the network changed")
        );
        assert_eq!(seen(1_000, later, None).differs_from(&before), None);
        assert_eq!(seen(2_000, later, home).differs_from(&seen(1_000, t, None)), Some("the network changed"));
    }
}
