//! Wall-clock times as Ray reports them, and durations for display and input.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch (the unit of Ray's job and node times).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The current wall-clock time. Not called by `app` and `ui`, which receive the time as an argument.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms)
    }

    /// From seconds since the Unix epoch, as the autoscaler reports its times.
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * 1000.0) as i64)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Time from this instant to `now`; zero if it is in the future (clocks differ between machines).
    pub fn age(self, now: Self) -> Duration {
        Duration::from_millis(u64::try_from(now.0.saturating_sub(self.0)).unwrap_or(0))
    }

    /// Time from `now` to this instant; zero if it has passed.
    pub fn until(self, now: Self) -> Duration {
        now.age(self)
    }

    /// This instant plus a duration.
    #[must_use]
    pub fn plus(self, d: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(d.as_millis()).unwrap_or(i64::MAX)))
    }

    /// This instant minus a duration.
    #[must_use]
    pub fn minus(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(d.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// Parses a duration: seconds, or a number with a unit, e.g. `600`, `90s`, `10m`, `2h`, `1d`.
///
/// # Errors
///
/// A hint about the format, if the text is not a duration, or if the duration is zero or too long.
pub fn span(text: &str) -> Result<Duration, String> {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let unit = match unit {
        "" | "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        "d" => Some(86_400),
        _ => None,
    };
    let seconds = number.parse::<u64>().ok().zip(unit).and_then(|(n, unit)| n.checked_mul(unit));
    let seconds = seconds.filter(|n| (1..=u64::from(u32::MAX)).contains(n));
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| "use seconds, or a number with s, m, h or d, e.g. 10m".into())
}

/// Parses a time limit: like [`span`], but it may be zero.
///
/// # Errors
///
/// As [`span`].
pub fn limit(text: &str) -> Result<Duration, String> {
    if text.trim_start_matches('0').is_empty() && !text.is_empty() { Ok(Duration::ZERO) } else { span(text) }
}

/// Parses an age in days, e.g. `30d`. A number alone is refused: it means seconds in [`span`], and what is older than this
/// age is deleted.
///
/// # Errors
///
/// A hint about the format.
pub fn days(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('d').and_then(|number| number.parse().ok());
    number.filter(|n| (1..=36_500).contains(n)).ok_or_else(|| "use a number of days, e.g. 30d".to_owned())
}

/// A duration in at most two units: `42s`, `3m`, `6h 02m`, `3d 4h`, `12d`.
pub fn brief(d: Duration) -> String {
    let s = d.as_secs();
    let (m, h, days) = (s / 60, s / 3600, s / 86_400);
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{m}m"),
        3600..86_400 => format!("{h}h {:02}m", m % 60),
        86_400..864_000 => format!("{days}d {}h", h % 24),
        _ => format!("{days}d"),
    }
}

/// A duration in seconds, as precisely as [`brief`] shows it: durations that are shown alike are equal.
pub const fn brief_secs(d: Duration) -> u64 {
    let s = d.as_secs();
    let unit = match s {
        0..60 => 1,
        60..86_400 => 60,
        86_400..864_000 => 3600,
        _ => 86_400,
    };
    s / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_brief() {
        let words = |s| brief(Duration::from_secs(s));
        assert_eq!(words(0), "0s");
        assert_eq!(words(59), "59s");
        assert_eq!(words(60), "1m");
        assert_eq!(words(6 * 3600 + 125), "6h 02m");
        assert_eq!(words(3 * 86_400 + 4 * 3600), "3d 4h");
        assert_eq!(words(12 * 86_400), "12d");
    }

    #[test]
    fn durations_that_are_shown_alike_are_equal() {
        let ends = [0, 59, 60, 3599, 3600, 3659, 86_399, 86_400, 90_000, 863_999, 864_000, 1_000_000];
        let all =
            || ends.into_iter().flat_map(|s: u64| [s.saturating_sub(1), s, s + 1]).map(Duration::from_secs);
        for a in all() {
            for b in all() {
                assert_eq!(brief(a) == brief(b), brief_secs(a) == brief_secs(b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn limits_may_be_zero_and_ages_need_a_unit() {
        assert_eq!(limit("0"), Ok(Duration::ZERO));
        assert_eq!(limit("10m"), Ok(Duration::from_secs(600)));
        assert!(limit("").is_err() && span("0").is_err());
        assert_eq!(days("30d"), Ok(30));
        assert!(["30", "0d", "30h", "d", ""].iter().all(|text| days(text).is_err()));
    }

    #[test]
    fn an_instant_in_the_future_has_no_age() {
        let now = Timestamp::from_millis(1_000);
        assert_eq!(Timestamp::from_millis(2_000).age(now), Duration::ZERO);
        assert_eq!(Timestamp::from_millis(2_000).until(now), Duration::from_secs(1));
    }
}
