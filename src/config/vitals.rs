//! The settings of vitals: how often they are read, and the thresholds from which they are findings.

use crate::model::VitalLimits;
use serde::Deserialize;
use std::time::Duration;

/// Thresholds in minutes and percent; 0 disables a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VitalSettings {
    /// Seconds between two reads for the cluster on the screen; 0 disables them.
    pub refresh_seconds: u64,
    /// Minutes without a step after which a run is stalled.
    pub stalled_minutes: u64,
    /// Decrease of the steps per second, in percent.
    pub slowed_percent: u64,
    /// Increase of the loss over its trend, in percent.
    pub diverging_percent: u64,
    /// Minutes for which a job is pending, or waits for its first resources.
    pub pending_minutes: u64,
    /// Minutes without a new checkpoint.
    pub checkpoint_minutes: u64,
    /// Minutes for which held chips are idle.
    pub idle_minutes: u64,
    /// Minutes for which a driver runs without its workers.
    pub driver_only_minutes: u64,
}

impl Default for VitalSettings {
    fn default() -> Self {
        let limits = VitalLimits::default();
        let minutes = |d: Duration| d.as_secs() / 60;
        let percent = |share: f64| (share * 100.0).round() as u64;
        Self {
            refresh_seconds: limits.every.as_secs(),
            stalled_minutes: minutes(limits.stalled),
            slowed_percent: percent(limits.slowed),
            diverging_percent: percent(limits.diverging),
            pending_minutes: minutes(limits.pending),
            checkpoint_minutes: minutes(limits.checkpoint),
            idle_minutes: minutes(limits.idle),
            driver_only_minutes: minutes(limits.driver),
        }
    }
}

impl VitalSettings {
    /// The name of a setting that is out of range.
    pub(super) fn wrong(&self) -> Option<&'static str> {
        /// Maximum of a threshold in minutes: one year.
        const MAX_MINUTES: u64 = 366 * 24 * 60;
        let minutes = [
            ("stalled_minutes", self.stalled_minutes),
            ("pending_minutes", self.pending_minutes),
            ("checkpoint_minutes", self.checkpoint_minutes),
            ("idle_minutes", self.idle_minutes),
            ("driver_only_minutes", self.driver_only_minutes),
        ];
        let is_every_wrong = !matches!(self.refresh_seconds, 0 | 5..=3600);
        (is_every_wrong.then_some("refresh_seconds"))
            .or_else(|| (self.slowed_percent >= 100).then_some("slowed_percent"))
            .or_else(|| (self.diverging_percent > 10_000).then_some("diverging_percent"))
            .or_else(|| minutes.iter().find(|(_, n)| *n > MAX_MINUTES).map(|(name, _)| *name))
    }

    /// The same as durations and fractions.
    pub fn limits(&self) -> VitalLimits {
        let minutes = |n: u64| Duration::from_secs(n * 60);
        VitalLimits {
            every: Duration::from_secs(self.refresh_seconds),
            stalled: minutes(self.stalled_minutes),
            slowed: self.slowed_percent as f64 / 100.0,
            diverging: self.diverging_percent as f64 / 100.0,
            pending: minutes(self.pending_minutes),
            checkpoint: minutes(self.checkpoint_minutes),
            idle: minutes(self.idle_minutes),
            driver: minutes(self.driver_only_minutes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_limits_and_invalid_values_are_named() {
        let defaults = VitalSettings::default();
        assert_eq!((defaults.limits(), defaults.wrong()), (VitalLimits::default(), None));
        let off = VitalSettings { refresh_seconds: 0, stalled_minutes: 0, slowed_percent: 0, ..defaults };
        assert_eq!((off.wrong(), off.limits().every), (None, Duration::ZERO));
        assert_eq!(VitalSettings { refresh_seconds: 1, ..defaults }.wrong(), Some("refresh_seconds"));
        assert_eq!(VitalSettings { slowed_percent: 100, ..defaults }.wrong(), Some("slowed_percent"));
        assert_eq!(VitalSettings { idle_minutes: u64::MAX, ..defaults }.wrong(), Some("idle_minutes"));
    }
}
