//! How the lines of a log are shown: what is turned on and off.

/// What is turned on. It stays when another log is opened in the pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a toggle of its own")]
pub struct Show {
    /// Long lines take several rows.
    pub wrap: bool,
    /// The time stands before each line.
    pub times: bool,
    /// Lines and errors over time stand above the lines.
    pub histogram: bool,
    /// What the progress lines say stands below the lines.
    pub progress: bool,
    /// Known noise is shown, and not its count.
    pub noise: bool,
    /// Every line is shown as it is: none hidden, cut or shortened.
    pub raw: bool,
}

impl Default for Show {
    fn default() -> Self {
        Self { wrap: false, times: false, histogram: false, progress: true, noise: false, raw: false }
    }
}

impl Show {
    /// Whether noise is hidden behind its count.
    pub const fn folds(self) -> bool {
        !(self.noise || self.raw)
    }
}
