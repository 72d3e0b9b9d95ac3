//! Rules for workers that are added or removed manually: their names, their number, and the drain timeout.

use super::Timestamp;

/// Maximum number of workers that can be requested at once.
pub const MOST_WORKERS: usize = 64;
/// Default drain timeout in seconds, after which a worker is removed anyway.
pub const DRAIN_SECS: u64 = 3600;

/// Maximum length of a resource name at Google in characters.
const MAX_NAME: usize = 63;

/// Whether Google accepts `name` as the name of a TPU VM or a queued resource (RFC 1035).
pub fn is_worker_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Names for `count` new workers. Without a stem one is generated from the time; workers added together are numbered.
pub fn worker_names(stem: &str, count: usize, now: Timestamp) -> Vec<String> {
    let generated = || format!("ray-worker-manual-{:x}", now.as_millis());
    let stem = if stem.is_empty() { generated() } else { stem.to_owned() };
    match count {
        1 => vec![stem],
        n => (1..=n).map(|i| format!("{stem}-{i}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_at_google() {
        for good in ["a", "ray-worker-manual-7", &"a".repeat(63)] {
            assert!(is_worker_name(good), "{good}");
        }
        for bad in ["", "7a", "-a", "a-", "A", "a_b", "a.b", "é", &"a".repeat(64)] {
            assert!(!is_worker_name(bad), "{bad}");
        }
        let now = Timestamp::from_millis(0x1a2b);
        assert_eq!(worker_names("", 1, now), ["ray-worker-manual-1a2b"]);
        assert_eq!(worker_names("w", 2, now), ["w-1", "w-2"]);
        assert!(worker_names("", MOST_WORKERS, now).iter().all(|n| is_worker_name(n)));
    }
}
