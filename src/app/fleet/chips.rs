//! Chips in use, and all of them.

/// Chips of several nodes or clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// Chips in use; none when the use is known on no cluster.
    pub used: Option<f64>,
    /// Whether the use of some chips is not known, so that more may be in use.
    pub is_least: bool,
    /// The number of chips.
    pub all: f64,
}

impl Sum {
    /// Adds those of another sum.
    pub fn join(&mut self, other: &Self) {
        if let Some(used) = other.used {
            self.used = Some(self.used.unwrap_or(0.0) + used);
        }
        self.is_least |= other.is_least;
        self.all += other.all;
    }

    /// Adds chips, so many of them in use where that is known.
    pub fn add(&mut self, used: Option<f64>, all: f64) {
        match used {
            _ if all <= 0.0 => {}
            Some(used) => self.used = Some(self.used.unwrap_or(0.0) + used),
            None => self.is_least = true,
        }
        self.all += all;
    }
}
