//! Chip counts: in use, and total.

/// Chips of several nodes or clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// Chips in use; `None` if the use is unknown on all clusters.
    pub used: Option<f64>,
    /// Whether `used` is a lower bound, because the use of some chips is unknown.
    pub is_lower_bound: bool,
    /// The number of chips.
    pub all: f64,
}

impl Sum {
    /// Adds the chips of another sum.
    pub fn join(&mut self, other: &Self) {
        if let Some(used) = other.used {
            self.used = Some(self.used.unwrap_or(0.0) + used);
        }
        self.is_lower_bound |= other.is_lower_bound;
        self.all += other.all;
    }

    /// Adds chips; `used` of them are in use, if known.
    pub fn add(&mut self, used: Option<f64>, all: f64) {
        match used {
            _ if all <= 0.0 => {}
            Some(used) => self.used = Some(self.used.unwrap_or(0.0) + used),
            None => self.is_lower_bound = true,
        }
        self.all += all;
    }
}
