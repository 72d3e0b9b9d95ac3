//! The vitals of running jobs: steps, losses, rates and signs of problems, derived from repeated readings of the ends
//! of the drivers' logs and from what Ray reports about their tasks.
//!
//! Pure: no clock, no I/O. A sign needs evidence over time, because a false alarm is worse than none: figures are
//! compared with the same run's own past, over several checks, and they are discarded when the run restarts.

mod gauge;
mod pace;
mod saved;
mod tail;
mod track;
mod trend;

pub use gauge::{Sampling, VitalsTracker, held_chips};
