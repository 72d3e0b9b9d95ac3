//! Notices within seconds that a head responds again: while it does not, it receives a small request each second.
//! Requests sent while it hung may never be answered, and the pause after a failure may have just begun.

use std::time::Duration;

/// Interval of the requests to a head that does not respond.
pub const EVERY: Duration = Duration::from_secs(1);
/// Timeout of such a request.
pub const ANSWER: Duration = Duration::from_secs(2);
/// A refresh that takes longer may never be answered.
pub const SLOW: Duration = Duration::from_secs(3);
/// A head that answers neither a refresh nor a small request within this time counts as not responding.
pub const SILENT: Duration = Duration::from_secs(5);
/// How long a refresh from before the recovery may still take, in case it is slow rather than lost.
pub const LOST: Duration = Duration::from_secs(8);

/// State of a head that may not respond.
#[derive(Debug, Default)]
pub struct Recovery {
    is_asking: bool,
    /// Whether the last refresh failed for lack of a valid token, so that further requests are pointless.
    is_pointless: bool,
    /// Whether a refresh was cancelled, and none has succeeded since.
    gave_up: bool,
    sign: Sign,
}

/// The result of the last request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sign {
    /// No action is needed.
    #[default]
    None,
    /// It was not answered as expected.
    Failed,
    /// It was answered after a failure; no refresh has succeeded since.
    Back,
}

impl Recovery {
    /// Records a successful refresh.
    pub fn refresh_succeeded(&mut self) {
        *self = Self { is_asking: self.is_asking, ..Self::default() };
    }

    /// Records a failed refresh, for lack of a token or otherwise.
    pub fn refresh_failed(&mut self, for_want_of_a_token: bool) {
        (self.is_pointless, self.gave_up) = (for_want_of_a_token, false);
    }

    /// Whether to send a request now, given a reason to; the result is passed to [`Recovery::answered`].
    pub fn asks(&mut self, has_reason: bool) -> bool {
        let asks = has_reason && !self.is_asking && !self.is_pointless;
        self.is_asking |= asks;
        asks
    }

    /// Records the result of a request. Returns true if the head responds again after a failure.
    pub fn answered(&mut self, is_well: bool) -> bool {
        self.is_asking = false;
        let before = self.sign;
        self.sign = match (is_well, before) {
            (false, _) => Sign::Failed,
            (true, Sign::None) => Sign::None,
            (true, Sign::Failed | Sign::Back) => Sign::Back,
        };
        is_well && before == Sign::Failed
    }

    /// Whether to cancel a refresh that has been pending for this long: the head responds again and may have lost the
    /// request. Only once until a refresh succeeds, because a slow one must be able to complete.
    pub fn gives_up(&mut self, waited: Duration) -> bool {
        let gives_up = self.sign == Sign::Back && waited > LOST && !self.gave_up;
        self.gave_up |= gives_up;
        gives_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_head_that_had_not_answered_comes_back() {
        let mut recovery = Recovery::default();
        assert!(!recovery.asks(false));
        assert!(recovery.asks(true) && !recovery.asks(true), "one question at a time");
        assert!(!recovery.answered(true), "it is slow, and well");
        assert!(recovery.asks(true) && !recovery.answered(false));
        assert!(recovery.asks(true) && recovery.answered(true));
        assert!(recovery.asks(true) && !recovery.answered(true), "it came back once");
        assert!(!recovery.gives_up(LOST) && recovery.gives_up(LOST * 2));
        assert!(!recovery.gives_up(LOST * 2), "a slow one comes to its end");
        recovery.refresh_succeeded();
        assert!(!recovery.gives_up(LOST * 2));
        recovery.refresh_failed(true);
        assert!(!recovery.asks(true), "a refused token is refused a second later, too");
        recovery.refresh_succeeded();
        assert!(recovery.asks(true));
    }
}
