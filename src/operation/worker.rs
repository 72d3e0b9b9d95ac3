//! Workers that a person adds, starts again and removes, outside the autoscaler: by a queued resource of Google's, or
//! on a host that is reached by SSH.

mod choose;
mod compute;
mod disclosed;
mod facts;
mod follow;
mod hit;
mod launch;
mod machine;
mod making;
mod offer;
mod planned;
mod request;
mod seen;
mod steps;

pub use choose::{Selection, select};
pub(super) use disclosed::warnings;
pub use facts::WorkerFacts;
pub(super) use hit::{affected, hit, running_on};
pub use machine::Machine;
pub use offer::offer;
pub(super) use planned::{also_removed, check};
pub(super) use seen::head_address;
