//! Workers that are added, restarted and removed manually, outside the autoscaler: as a queued resource at Google, or
//! on a host that is reached by SSH.

mod affected;
mod choose;
mod compute;
mod create;
mod disclosed;
mod facts;
mod follow;
mod joined;
mod launch;
mod machine;
mod offer;
mod planned;
mod request;
mod steps;

pub(super) use affected::{affected, is_gone, nodes_of, running_on};
pub use choose::{Selection, select};
pub(super) use disclosed::warnings;
pub use facts::WorkerFacts;
pub(super) use joined::head_address;
pub use machine::Machine;
pub use offer::offer;
pub(super) use planned::{check, check_address, owned_resources};
pub(super) use steps::StepProgress;
