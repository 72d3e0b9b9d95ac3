//! Python stacks of many processes: read from the output of `py-spy dump`, reduced by Ray's own frames, and grouped if
//! equal. The largest group is the usual stack of a healthy run; a worker outside of it is the one to check
//! (`ByteRobust`, arXiv 2509.16293).

mod dump;
mod fold;
mod group;
mod raylet;

pub use dump::{Dump, Frame, Thread};
pub use fold::{StackLocation, is_driver, is_worker, location, locations};
pub use group::{Group, groups, moved};
pub use raylet::Raylet;
