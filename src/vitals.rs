//! The vitals of running jobs: the ends of their drivers' logs, read again and again, and what Ray says of their tasks
//! become steps, losses, rates, and signs that something is wrong.
//!
//! Pure: no clock, no I/O. A sign needs evidence over time, because a false alarm is worse than none: figures are
//! compared with the same run's own past, over several checks, and they are discarded when the run restarts.

mod gauge;
mod pace;
mod saved;
mod tail;
mod track;
mod trend;

pub use gauge::{Sampling, VitalsTracker};
