//! Display options of a log.

/// Display options, which are kept when another log is opened in the pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a toggle of its own")]
pub struct Show {
    /// Wrap long lines.
    pub wrap: bool,
    /// Show the time before each line.
    pub times: bool,
    /// Show lines and errors over time above the lines.
    pub histogram: bool,
    /// Show the progress below the lines.
    pub progress: bool,
    /// Show known noise instead of its count.
    pub noise: bool,
    /// Show every line unchanged: none hidden or truncated.
    pub raw: bool,
}

impl Default for Show {
    fn default() -> Self {
        Self { wrap: false, times: false, histogram: false, progress: true, noise: false, raw: false }
    }
}

impl Show {
    /// Whether noise is folded into its count.
    pub const fn folds(self) -> bool {
        !(self.noise || self.raw)
    }
}
