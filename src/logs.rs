//! Log lines: storage, search, time stamps, progress and errors of one log, and analyses of the logs of many workers.
//!
//! No terminal and no network: [`crate::ray`], [`crate::supervisor`] and the commands provide the bytes; the console
//! and the commands display the lines.

mod buffer;
mod cause;
mod checkpoint;
mod fault;
mod fold;
#[cfg(test)]
mod fuzz;
mod grep;
mod incremental_filter;
mod level;
mod lines;
mod live_merge;
mod merge;
mod noise;
mod normal;
mod overview;
mod pattern;
mod prefix;
mod progress;
mod repeated;
mod runs;
mod search;
mod series;
mod time;
mod timeline;
mod unit;

pub use buffer::LogBuffer;
pub use cause::{Causes, Certainty, Evidence, Explanation, Followed, Source};
pub use checkpoint::checkpoint;
pub use fault::{Fault, fault};
pub use fold::{Fold, Member, Row};
pub use grep::{Grep, NotForGrep};
pub use incremental_filter::{IncrementalFilter, STEP};
pub use level::{Level, level};
pub use lines::LineSplitter;
pub use live_merge::LiveMerge;
pub use merge::{Merge, Merged};
pub use noise::{KNOWN_NOISE, Noise, noise};
pub use normal::{Shape, normal, shape};
pub use overview::{Answer, Overview, Worker, WorkerNote};
pub use pattern::{Pattern, PatternError};
pub use prefix::{Prefixed, Writer, Writers, prefixed};
pub use progress::{Patterns, Phase, Progress};
pub use repeated::Repeated;
pub use runs::Runs;
pub use search::Search;
pub use series::{Point, Series};
pub use time::{Clock, Times, untimed};
pub use timeline::{Histogram, Timeline, clock};
pub use unit::{Unit, Units};
