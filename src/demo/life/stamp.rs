//! Times as Ray writes them in its logs.

/// A time of day as Python's logging writes it: `2026-11-21 08:30:05,123`.
pub(super) fn stamp(ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
    format!("{},{:03}", time.strftime("%Y-%m-%d %H:%M:%S"), ms.rem_euclid(1000))
}
