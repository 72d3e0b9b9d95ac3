//! Logs: lines, what is held of them, what a search finds, and what many workers' lines say together.
//!
//! No terminal and no network: [`crate::ray`], [`crate::supervisor`] and the commands bring the bytes, the console and
//! the commands show the lines.

mod held;
mod lines;
mod search;

pub use held::Held;
pub use lines::LineSplitter;
pub use search::Search;
