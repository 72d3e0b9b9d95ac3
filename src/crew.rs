//! The workers of a job, and what their files say together: roll call, equal lines of many, lines in the order of time,
//! the first cause.
//!
//! No terminal and no network: [`crate::operation`] reads the files, and the console and the commands show the same.

mod call;
mod causes;
mod explain;
mod known;
mod lines;
mod seat;
mod told;

pub use call::{CALLED, call, last_files, steps_words, unwell};
pub use causes::{Clocks, HostClock, causes, hosts_to_time};
pub use explain::{
    Findings, Quiet, Verdict, ahead, certainty_words, explained, failure, place, running, seat_of,
    without_error,
};
pub use known::{Known, Pending, Unwell};
pub use lines::{Among, FOLDED, Folded, Said, fold, in_order};
pub use seat::{Crew, Seat, Tail, age_words, first_few, lost_words};
pub use told::{Part, Price, Told, What};
