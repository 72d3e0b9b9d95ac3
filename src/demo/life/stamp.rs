//! Timestamps in the format of Ray's logs.

/// A date and time in the format of Python's logging: `2026-11-21 08:30:05,123`.
pub(in crate::demo) fn stamp(ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
    format!("{},{:03}", time.strftime("%Y-%m-%d %H:%M:%S"), ms.rem_euclid(1000))
}
