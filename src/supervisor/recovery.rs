//! Notices within seconds that a head answers again: while it does not, it is asked something small each second. What
//! was asked while it hung may never be answered, and the pause after a failure may have just begun.

use std::time::Duration;

/// A head that does not answer is asked this often.
pub const EVERY: Duration = Duration::from_secs(1);
/// What the answer may take.
pub const ANSWER: Duration = Duration::from_secs(2);
/// A refresh that takes longer may be one that is never answered.
pub const SLOW: Duration = Duration::from_secs(3);
/// A head that answers neither a refresh within this time nor a small question is called silent.
pub const SILENT: Duration = Duration::from_secs(5);
/// A refresh from before the head came back is given this time: it may be slow and not lost.
pub const LOST: Duration = Duration::from_secs(8);

/// What is known of a head that may not answer.
#[derive(Debug, Default)]
pub struct Recovery {
    is_asking: bool,
    /// The last refresh failed for lack of a valid token, so that asking again does not help.
    is_pointless: bool,
    /// A refresh was given up, and none has come back since.
    gave_up: bool,
    sign: Sign,
}

/// What came of the last question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sign {
    /// No action is needed.
    #[default]
    None,
    /// It was not answered as it should be.
    Failed,
    /// It was, after one that was not; no refresh has come back since.
    Back,
}

impl Recovery {
    /// A refresh came back with the state.
    pub fn refresh_succeeded(&mut self) {
        *self = Self { is_asking: self.is_asking, ..Self::default() };
    }

    /// A refresh failed, for want of a token or otherwise.
    pub fn refresh_failed(&mut self, for_want_of_a_token: bool) {
        (self.is_pointless, self.gave_up) = (for_want_of_a_token, false);
    }

    /// Whether to ask now, where there is reason to; answered by [`Recovery::answered`].
    pub fn asks(&mut self, has_reason: bool) -> bool {
        let asks = has_reason && !self.is_asking && !self.is_pointless;
        self.is_asking |= asks;
        asks
    }

    /// Takes the answer in. True when the head answers again after it had not.
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

    /// Whether to give up a refresh that has been waited for so long: it answers again, and may have lost what it was
    /// asked before. Only once until one comes back: one that is slow must come to its end.
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
