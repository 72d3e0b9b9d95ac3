//! Detects within seconds that a head responds again: while it does not, it is sent a small request each second.
//! Requests sent while it hung may never be answered, and the pause after a failure may have just begun.

use std::time::Duration;

/// Interval of the requests to a head that does not respond.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of such a request.
pub const TIMEOUT: Duration = Duration::from_secs(2);
/// A refresh that takes longer may never be answered.
pub const SLOW_REFRESH: Duration = Duration::from_secs(3);
/// A head that answers neither a refresh nor a small request within this time counts as not responding.
pub const NOT_RESPONDING: Duration = Duration::from_secs(5);
/// How long a refresh from before the recovery may still take, in case it is slow rather than lost.
pub const LOST_REFRESH: Duration = Duration::from_secs(8);

/// State of a head that may not respond.
#[derive(Debug, Default)]
pub struct Recovery {
    is_pending: bool,
    /// Whether the last refresh failed for lack of a valid token, so that further requests are pointless.
    is_pointless: bool,
    /// Whether a refresh was cancelled, and none has succeeded since.
    gave_up: bool,
    last: LastProbe,
}

/// The result of the last request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastProbe {
    /// No action is needed.
    #[default]
    None,
    /// It was not answered as expected.
    Failed,
    /// It was answered after a failure; no refresh has succeeded since.
    Recovered,
}

impl Recovery {
    /// Records a successful refresh.
    pub fn refresh_succeeded(&mut self) {
        *self = Self { is_pending: self.is_pending, ..Self::default() };
    }

    /// Records a failed refresh, for lack of a token or otherwise.
    pub fn refresh_failed(&mut self, for_lack_of_a_token: bool) {
        (self.is_pointless, self.gave_up) = (for_lack_of_a_token, false);
    }

    /// Whether to send a request now, given a reason to; the result is passed to [`Recovery::answered`].
    pub fn should_probe(&mut self, has_reason: bool) -> bool {
        let should_probe = has_reason && !self.is_pending && !self.is_pointless;
        self.is_pending |= should_probe;
        should_probe
    }

    /// Records the result of a request. Returns true if the head responds again after a failure.
    pub fn answered(&mut self, responds: bool) -> bool {
        self.is_pending = false;
        let before = self.last;
        self.last = match (responds, before) {
            (false, _) => LastProbe::Failed,
            (true, LastProbe::None) => LastProbe::None,
            (true, LastProbe::Failed | LastProbe::Recovered) => LastProbe::Recovered,
        };
        responds && before == LastProbe::Failed
    }

    /// Whether to cancel a refresh that has been pending for this long: the head responds again and may have lost the
    /// request. Only once until a refresh succeeds, because a slow one must be able to complete.
    pub fn gives_up(&mut self, waited: Duration) -> bool {
        let gives_up = self.last == LastProbe::Recovered && waited > LOST_REFRESH && !self.gave_up;
        self.gave_up |= gives_up;
        gives_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_head_that_did_not_respond_can_recover() {
        let mut recovery = Recovery::default();
        assert!(!recovery.should_probe(false));
        assert!(recovery.should_probe(true) && !recovery.should_probe(true), "one request at a time");
        assert!(!recovery.answered(true), "the head is slow but responds");
        assert!(recovery.should_probe(true) && !recovery.answered(false));
        assert!(recovery.should_probe(true) && recovery.answered(true));
        assert!(recovery.should_probe(true) && !recovery.answered(true), "recovery is reported once");
        assert!(!recovery.gives_up(LOST_REFRESH) && recovery.gives_up(LOST_REFRESH * 2));
        assert!(
            !recovery.gives_up(LOST_REFRESH * 2),
            "only one refresh is cancelled, so that a slow one can complete"
        );
        recovery.refresh_succeeded();
        assert!(!recovery.gives_up(LOST_REFRESH * 2));
        recovery.refresh_failed(true);
        assert!(!recovery.should_probe(true), "a refused token would be refused again");
        recovery.refresh_succeeded();
        assert!(recovery.should_probe(true));
    }
}
